package seal_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/seal"
)

var here = seal.Place{Owner: "ep_1", Field: "secret"}

func newTestKey() string {
	raw := make([]byte, 32)
	rand.Read(raw)
	return base64.StdEncoding.EncodeToString(raw)
}

func mustBox(t testing.TB, keys ...string) *seal.Box {
	t.Helper()
	b, err := seal.ParseKeys(strings.Join(keys, " "))
	require.NoError(t, err)
	return b
}

func TestWhatIsSealedOpensToTheSame(t *testing.T) {
	b := mustBox(t, newTestKey())
	for _, value := range []string{"", "a", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "\x00\xff\xfe", strings.Repeat("long ", 4000), "seal1.0.0"} {
		sealed := b.Seal(value, here)
		got, err := b.Open(sealed, here)
		require.NoError(t, err)
		require.Equal(t, value, got)
		require.True(t, strings.HasPrefix(sealed, "seal1."), "a sealed text is told from any other")
		if len(value) > 8 {
			require.NotContains(t, sealed, value[:8])
		}
	}
}

func TestTheSameValueIsSealedAnotherWayEachTime(t *testing.T) {
	b := mustBox(t, newTestKey())
	seen := map[string]bool{}
	for range 1000 {
		seen[b.Seal("value", here)] = true
	}
	require.Len(t, seen, 1000)
}

func TestASealedValueOpensInItsPlaceOnly(t *testing.T) {
	b := mustBox(t, newTestKey())
	sealed := b.Seal("value", seal.Place{Owner: "ab", Field: "cd"})
	for _, other := range []seal.Place{
		{Owner: "ab", Field: "ce"}, {Owner: "aa", Field: "cd"}, {Owner: "abc", Field: "d"}, {Owner: "a", Field: "bcd"},
		{Owner: "", Field: "abcd"}, {Owner: "abcd"}, {},
	} {
		_, err := b.Open(sealed, other)
		require.ErrorIs(t, err, seal.ErrBroken, "%v", other)
	}
}

func TestNoChangedTextOpens(t *testing.T) {
	b := mustBox(t, newTestKey())
	sealed := b.Seal("value", here)
	for i := range sealed {
		for _, c := range []byte{'A', 'z', '0', '.', '\n', sealed[i] ^ 1} {
			if c == sealed[i] {
				continue
			}
			changed := sealed[:i] + string(rune(c)) + sealed[i+1:]
			_, err := b.Open(changed, here)
			require.Error(t, err, "%q", changed)
		}
		_, err := b.Open(sealed[:i], here)
		require.Error(t, err, "cut at %d", i)
		_, err = b.Open(sealed[:i]+sealed[i+1:], here)
		require.Error(t, err, "without %d", i)
	}
	for _, text := range []string{"", "value", "seal1.", "seal2." + sealed[6:], sealed + "A", sealed + "=", sealed + "\n", " " + sealed} {
		_, err := b.Open(text, here)
		require.ErrorIs(t, err, seal.ErrBroken, "%q", text)
	}
}

func TestKeysCanBeChangedOneAfterTheOther(t *testing.T) {
	first, second, third := newTestKey(), newTestKey(), newTestKey()
	old := mustBox(t, first).Seal("value", here)
	both := mustBox(t, second, first)
	opened, err := both.Open(old, here)
	require.NoError(t, err)
	require.Equal(t, "value", opened)

	renewed := both.Seal(opened, here)
	opened, err = mustBox(t, third, second).Open(renewed, here)
	require.NoError(t, err, "the first key seals")
	require.Equal(t, "value", opened)
	_, err = mustBox(t, third, second).Open(old, here)
	require.ErrorIs(t, err, seal.ErrLocked)
	_, err = mustBox(t, first).Open(renewed, here)
	require.ErrorIs(t, err, seal.ErrLocked)
}

func TestABoxCoversThatOfFewerKeys(t *testing.T) {
	first, second := newTestKey(), newTestKey()
	one, both := mustBox(t, first), mustBox(t, second, first)
	require.True(t, both.Covers(one) && one.Covers(one) && one.Covers(nil), "whichever is first")
	require.False(t, one.Covers(both) || mustBox(t, second).Covers(one) || (*seal.Box)(nil).Covers(one))
}

func TestNoBoxOpensNothing(t *testing.T) {
	var none *seal.Box
	_, err := none.Open(mustBox(t, newTestKey()).Seal("value", here), here)
	require.ErrorIs(t, err, seal.ErrLocked)
	_, err = none.Open("value", here)
	require.ErrorIs(t, err, seal.ErrBroken)
}

func TestParseKeys(t *testing.T) {
	a, b := newTestKey(), newTestKey()
	box, err := seal.ParseKeys("\n " + a + "\t\r\n" + b + " ")
	require.NoError(t, err)
	require.Equal(t, "box of 2 keys", fmt.Sprint(box))

	for _, text := range []string{"", " \n\t "} {
		_, err = seal.ParseKeys(text)
		require.ErrorIs(t, err, seal.ErrNoKey)
	}
	many := make([]string, 17)
	for i := range many {
		many[i] = newTestKey()
	}
	mustBox(t, many[:16]...)
	_, err = seal.ParseKeys(strings.Join(many, " "))
	require.EqualError(t, err, "more than 16 keys")
}

func TestParseKeysRefusesWithoutRepeating(t *testing.T) {
	good := newTestKey()
	raw, err := base64.StdEncoding.DecodeString(good)
	require.NoError(t, err)
	for name, c := range map[string]struct{ text, why string }{
		"a short one":          {base64.StdEncoding.EncodeToString(raw[:31]), "it has 31"},
		"a long one":           {base64.StdEncoding.EncodeToString(append(raw, 1)), "it has 33"},
		"half a one":           {base64.StdEncoding.EncodeToString(raw[:16]), "it has 16"},
		"without padding":      {strings.TrimRight(good, "="), "standard base64"},
		"in hex":               {hex.EncodeToString(raw), "it has 48"},
		"a bad character":      {"*" + good[1:], "standard base64"},
		"stray bits":           {good[:42] + "B=", "standard base64"},
		"with commas between":  {good + "," + newTestKey(), "standard base64"},
		"a passphrase":         {"correct-horse-battery-staple", "standard base64"},
		"a signing secret":     {"whsec_" + good, "standard base64"},
		"the same twice":       {good, "key 2 is key 1 again"},
		"in the URL's base64":  {"_-_-" + good[4:], "standard base64"},
		"quoted":               {`"` + good + `"`, "standard base64"},
		"with its name before": {"ENCRYPTION_KEY=" + good, "standard base64"},
	} {
		t.Run(name, func(t *testing.T) {
			box, err := seal.ParseKeys(good + " " + c.text)
			require.ErrorContains(t, err, c.why)
			require.ErrorContains(t, err, "key 2")
			require.Nil(t, box)
			for _, secret := range []string{good, c.text, hex.EncodeToString(raw)} {
				for i := range max(len(secret)-8, 0) {
					require.NotContains(t, err.Error(), secret[i:i+8])
				}
			}
		})
	}
}

func TestABoxNeverShowsItsKeys(t *testing.T) {
	key := newTestKey()
	raw, err := base64.StdEncoding.DecodeString(key)
	require.NoError(t, err)
	box := mustBox(t, key)
	decimals := strings.Trim(fmt.Sprint(raw[:4]), "[]")
	type options struct {
		Seal *seal.Box
		box  seal.Box
	}
	for _, held := range []any{box, *box, options{box, *box}, &options{box, *box}, []*seal.Box{box}} {
		texts := []string{}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			texts = append(texts, fmt.Sprintf(verb, held))
		}
		var out bytes.Buffer
		slog.New(slog.NewTextHandler(&out, nil)).Info("held", "it", held)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("held", "it", held)
		asJSON, err := json.Marshal(held)
		require.NoError(t, err)
		for _, text := range append(texts, out.String(), string(asJSON)) {
			require.NotContains(t, text, key[:8])
			require.NotContains(t, text, string(raw[:4]))
			require.NotContains(t, text, hex.EncodeToString(raw[:4]))
			require.NotContains(t, text, decimals)
			require.NotContains(t, text, strings.ReplaceAll(decimals, " ", ", "))
		}
	}
}

func TestABoxIsForMany(t *testing.T) {
	box := mustBox(t, newTestKey(), newTestKey())
	wrong := make([]error, 16)
	var all sync.WaitGroup
	for n := range wrong {
		all.Go(func() {
			for range 200 {
				value := fmt.Sprint("value ", n)
				if got, err := box.Open(box.Seal(value, here), here); err != nil || got != value {
					wrong[n] = fmt.Errorf("%q: %w", got, err)
				}
			}
		})
	}
	all.Wait()
	for _, err := range wrong {
		require.NoError(t, err)
	}
}

func FuzzOpen(f *testing.F) {
	box := mustBox(f, newTestKey())
	f.Add(box.Seal("value", here), "ep_1", "secret")
	f.Add("seal1.00000000.AAAA", "", "")
	f.Fuzz(func(t *testing.T, text, owner, field string) {
		at := seal.Place{Owner: owner, Field: field}
		if value, err := box.Open(text, at); err == nil {
			require.Equal(t, "value", value, "nobody else has the key")
		}
		got, err := box.Open(box.Seal(text, at), at)
		require.NoError(t, err)
		require.Equal(t, text, got)
	})
}

func BenchmarkOpen(b *testing.B) {
	box := mustBox(b, newTestKey())
	sealed := box.Seal("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYqr", here)
	for b.Loop() {
		_, _ = box.Open(sealed, here)
	}
}

func TestAProofHoldsForOneTextInOnePlaceWithOneKey(t *testing.T) {
	first, second := newTestKey(), newTestKey()
	both, old := mustBox(t, second, first), mustBox(t, first)
	at := seal.Place{Owner: "ep_a", Field: "record 7"}
	proof := old.Sign([]byte("text"), at)
	require.NoError(t, both.Verify(proof, []byte("text"), at))
	require.False(t, both.Current(proof))
	require.True(t, both.Current(both.Sign([]byte("text"), at)))
	require.ErrorIs(t, mustBox(t, second).Verify(proof, []byte("text"), at), seal.ErrLocked)
	require.ErrorIs(t, (*seal.Box)(nil).Verify(proof, []byte("text"), at), seal.ErrLocked)
	for _, wrong := range []error{
		both.Verify(proof, []byte("texT"), at), both.Verify(proof, nil, at), both.Verify(proof+"A", []byte("text"), at),
		both.Verify(proof, []byte("text"), seal.Place{Owner: "ep_b", Field: "record 7"}),
		both.Verify(proof, []byte("text"), seal.Place{Owner: "ep_a", Field: "record 8"}),
		both.Verify("", []byte("text"), at), both.Verify("mac1.", []byte("text"), at), both.Verify(both.Seal("text", at), []byte("text"), at),
	} {
		require.ErrorIs(t, wrong, seal.ErrBroken)
	}
}
