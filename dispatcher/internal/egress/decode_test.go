package egress_test

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher"
)

// pack compresses a text.
func pack(t testing.TB, coding, text string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "zlib":
		w = zlib.NewWriter(&b)
	default:
		var err error
		w, err = flate.NewWriter(&b, flate.DefaultCompression)
		require.NoError(t, err)
	}
	_, err := io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

// TestCompressedBodyIsItsText: the rule of a receiver is about the text, and people see the text.
func TestCompressedBodyIsItsText(t *testing.T) {
	gzipped, most := pack(t, "gzip", "success"), strings.Repeat("x", dispatcher.AnswerLimit)
	const damaged, unreadable, unknown = "the gzip of the body is damaged", "the body can't be decoded as gzip", "the body has a Content-Encoding that is not supported"
	for name, tc := range map[string]struct {
		coding, sent, body, unread string
		cut                        bool
	}{
		"gzip":                   {"gzip", gzipped, "success", "", false},
		"gzip by its old name":   {" X-GZIP ", gzipped, "success", "", false},
		"gzip in two parts":      {"gzip", gzipped + gzipped, "successsuccess", "", false},
		"zlib":                   {"deflate", pack(t, "zlib", "success"), "success", "", false},
		"deflate without zlib":   {"deflate", pack(t, "flate", "success"), "success", "", false},
		"gzip beside identity":   {"identity, gzip", gzipped, "success", "", false},
		"nothing, compressed":    {"gzip", pack(t, "gzip", ""), "", "", false},
		"nothing at all":         {"gzip", "", "", "", false},
		"identity":               {"identity", "success", "success", "", false},
		"as much as is read":     {"gzip", pack(t, "gzip", most), most, "", false},
		"one more":               {"gzip", pack(t, "gzip", most+"x"), most, "", true},
		"a thousand times that":  {"gzip", pack(t, "gzip", strings.Repeat(most, 1000)), most, "", true},
		"text that is no gzip":   {"gzip", "success", "success", unreadable, false},
		"text that is no zlib":   {"deflate", "success", "success", "the body can't be decoded as deflate", false},
		"gzip without its end":   {"gzip", gzipped[:len(gzipped)-4], "success", damaged, true},
		"gzip of another sum":    {"gzip", gzipped[:len(gzipped)-8] + "12345678", "success", damaged, true},
		"gzip and more":          {"gzip", gzipped + "more", "success", damaged, true},
		"gzip without a text":    {"gzip", gzipped[:10], gzipped[:10], unreadable, false},
		"gzip twice":             {"gzip, gzip", pack(t, "gzip", gzipped), pack(t, "gzip", gzipped), unknown, false},
		"another one":            {"br", "\x0b\x03\x80success\x03", "\x0b\x03\x80success\x03", unknown, false},
		"one that nobody knows":  {"hunter2", "success", "success", unknown, false},
		"gzip that is not named": {"identity", gzipped, gzipped, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTestReceiver(t, serve(fmt.Sprintf("%sContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s", okHead, tc.coding, len(tc.sent), tc.sent)))
			c := newTestClient(t)
			for range 2 {
				a := send(t, c, newTestCall(r.url(t)))
				require.Equal(t, 200, a.Status, "%v", a.Err)
				require.Equal(t, tc.body, string(a.Body))
				require.Equal(t, tc.cut, a.Cut)
				require.Equal(t, tc.unread, a.Unread)
				require.LessOrEqual(t, cap(a.Body), 2*dispatcher.AnswerLimit)
			}
			require.LessOrEqual(t, r.accepted.Load(), int64(2))
		})
	}
}

// TestCompressedBodyThatBreaksOffIsCut, and what came of it counts.
func TestCompressedBodyThatBreaksOffIsCut(t *testing.T) {
	text := pack(t, "gzip", strings.Repeat("success ", 1000))
	r := newTestReceiver(t, func(r *receiver, c *net.TCPConn, _ int) {
		r.request(bufio.NewReader(c))
		_, _ = fmt.Fprintf(c, "%sContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", okHead, len(text), text[:len(text)-9])
	})
	a := send(t, newTestClient(t), newTestCall(r.url(t)))
	require.Equal(t, 200, a.Status, "%v", a.Err)
	require.True(t, strings.HasPrefix(string(a.Body), "success success"), "%q", a.Body)
	require.True(t, a.Cut)
	require.Empty(t, a.Unread)
}
