package home_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hookladder/hookladder/dispatcher"
	"github.com/hookladder/hookladder/dispatcher/internal/redisq/home"
)

// A record that was changed in any byte is none.
func FuzzSessionRecords(f *testing.F) {
	key, hash := testKey("ops"), dispatcher.HashToken("token")
	good := home.SessionText(key, hash, time.UnixMilli(1_000), time.UnixMilli(2_000))
	for _, seed := range append(flips(good), good, "  ", "1 2 3", "-1 9999999999999999999 x") {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		began, until, ok := home.DecodeSession(key, hash, text)
		if ok != (text == good) {
			t.Fatalf("%q: %v", text, ok)
		}
		if ok && (began.UnixMilli() != 1_000 || until.UnixMilli() != 2_000) {
			t.Fatalf("%q: %s to %s", text, began, until)
		}
	})
}

// What a link allows has one MAC. Only the calls of the last hour may differ.
func FuzzLinkRecords(f *testing.F) {
	key := testKey("ops")
	want := dispatcher.Link{ID: "lnk_1", Tenant: "m7", Endpoint: "ep_1", Manage: true, Name: "Anna", By: "key:ops", Key: "ops", CreatedAt: time.UnixMilli(1_000), ExpiresAt: time.UnixMilli(2_000)}
	good, err := home.EncodeLink(key, "0f", want)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range append(flips(good), good, "     ", `0f 1 2 - x {"Tenant":"m7","Key":"gone"}`, strings.Replace(good, " - ", " 1,2 ", 1)) {
		f.Add(seed)
	}
	same := func(text string) bool { // but for the calls
		have, rest := strings.SplitN(text, " ", 5), strings.SplitN(good, " ", 5)
		return len(have) == 5 && strings.Join(have[:3], " ") == strings.Join(rest[:3], " ") && have[4] == rest[4]
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, hash, ok := home.DecodeLink(dispatcher.AccessKeys{key}, want.ID, text)
		if opens := ok && l.Ended == ""; opens != same(text) {
			t.Fatalf("%q: %v", text, opens)
		}
		if ok && l.Ended == "" && (hash != "0f" || l.Tenant != want.Tenant || l.ExpiresAt.UnixMilli() != 2_000) {
			t.Fatalf("%q: %+v", text, l)
		}
	})
}
