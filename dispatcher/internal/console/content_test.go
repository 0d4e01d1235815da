package console_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hookladder/hookladder/dispatcher/internal/console"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

func of(media, body string) console.Body {
	m := &wire.MessageView{Message: wire.Message{RawBody: &body, ContentType: media}}
	return console.BodyOf(m)
}

// A receiver signs bytes, so what people see must be these.
func TestJSONKeepsItsNumbersAndOrder(t *testing.T) {
	raw := `{"z":12345678901234567890,"a":1.10,"e":1e400,"t":"\u202e<b>","n":[]}`
	b := console.BodyOf(&wire.MessageView{Message: wire.Message{Body: json.RawMessage(raw), ContentType: "application/json"}})
	require.Equal(t, "JSON", b.Kind)
	require.Equal(t, raw, b.Sent)
	require.Equal(t, len(raw), b.Bytes)
	require.Equal(t, "{\n  \"z\": 12345678901234567890,\n  \"a\": 1.10,\n  \"e\": 1e400,\n  \"t\": \"\\u202e<b>\",\n  \"n\": []\n}", b.Pretty)
}

// The order is that of encoding/json, which can't stop where enough is shown.
func TestJSONIsIndentedAsUsual(t *testing.T) {
	for _, raw := range []string{
		`{}`, `[ ]`, `{"a":[],"b":{ },"c":[[1,2],[{}]]}`, ` { "a" : "x\\" , "b\"[": [1 , true,null] }`, `"x"`, `3`, `{"a":"]","b":[["{"]]}`, `[[],[]]`,
	} {
		var want bytes.Buffer
		require.NoError(t, json.Indent(&want, []byte(strings.TrimSpace(raw)), "", "  "))
		got := of("application/json", raw).Pretty
		if want.String() == raw {
			require.Empty(t, got)
			continue
		}
		require.Equal(t, want.String(), got)
	}
}

func TestAFormKeepsItsOrder(t *testing.T) {
	b := of("application/x-www-form-urlencoded; charset=utf-8", "sum=1+000&id=%C3%BC&bad=%zz&flag")
	require.Equal(t, []console.BodyField{{"sum", "1 000"}, {"id", "ü"}, {"bad", "%zz"}, {"flag", ""}}, b.Fields)
	require.Equal(t, "form", b.Kind)
}

func TestXMLIsIndentedAndElseAsItWas(t *testing.T) {
	raw := `<?xml version="1.0" encoding="GBK"?><xml><sum  cur='EUR'>1.10</sum><empty/><d><![CDATA[a<b]]></d><p>x<i>y</i></p></xml>`
	want := "<?xml version=\"1.0\" encoding=\"GBK\"?>\n<xml>\n  <sum  cur='EUR'>1.10</sum>\n  <empty/>\n  <d><![CDATA[a<b]]></d>\n  <p>x<i>y</i>\n  </p>\n</xml>"
	require.Equal(t, want, of("text/xml", raw).Pretty)
	require.Empty(t, of("text/xml", "<a").Pretty)
	require.Equal(t, "<a", of("text/xml", "<a").Sent)
}

func TestBytesAreDumped(t *testing.T) {
	b := console.BodyOf(&wire.MessageView{Message: wire.Message{RawBodyBase64: []byte("\xc4\xe3" + strings.Repeat("a", 5000)), ContentType: "text/plain; charset=gbk"}})
	require.True(t, b.Dumped)
	require.True(t, b.Cut)
	require.Equal(t, 5002, b.Bytes)
	require.True(t, strings.HasPrefix(b.Sent, "00000000  c4 e3 61"), b.Sent[:30])
	require.Less(t, len(b.Sent), 12<<10)
}

func TestAHugeBodyIsCutAtALettersEnd(t *testing.T) {
	b := of("text/plain", "x"+strings.Repeat("ü", 40_000))
	require.True(t, b.Cut)
	require.Equal(t, 80_001, b.Bytes)
	require.LessOrEqual(t, len(b.Sent), 24<<10)
	require.True(t, strings.HasSuffix(b.Sent, "ü"))
	deep := of("application/json", strings.Repeat("[", 5000)+strings.Repeat("]", 5000))
	require.LessOrEqual(t, len(deep.Pretty), 24<<10)
	require.LessOrEqual(t, len(of("application/x-www-form-urlencoded", strings.Repeat("a=b&", 10_000)).Fields), 200)
}

func TestWithoutTheScopeThereIsAHash(t *testing.T) {
	b := console.BodyOf(&wire.MessageView{BodyBytes: 7, BodySHA256: "abc"})
	require.Equal(t, console.Body{Bytes: 7, SHA256: "abc"}, b)
}
