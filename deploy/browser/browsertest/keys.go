package browsertest

import (
	"context"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// Press presses keys one after the other: "Tab", "Shift+Tab", "Enter", "j", "?".
func (b *Tab) Press(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		b.do("press "+key, chromedp.Func(func(ctx context.Context, s *chromedp.Target) error { return press(ctx, s, key) }))
	}
}

// Type types a text into the element with the focus.
func (b *Tab) Type(text string) {
	b.t.Helper()
	for _, key := range strings.Split(text, "") {
		b.Press(key)
	}
}

// named has the codes of keys that type no character. Some also have a text, because
// they change a field.
var named = map[string]struct {
	code int64
	text string
}{
	"Tab": {9, ""}, "Enter": {13, "\r"}, "Escape": {27, ""}, "Space": {32, " "}, "Delete": {46, ""}, "Backspace": {8, ""},
	"Home": {36, ""}, "End": {35, ""}, "ArrowLeft": {37, ""}, "ArrowUp": {38, ""}, "ArrowRight": {39, ""}, "ArrowDown": {40, ""},
}

const shift = 8 // the bit of this modifier

// press sends a key like a keyboard: its character arrives only if the page does not
// prevent it.
func press(ctx context.Context, s *chromedp.Target, key string) error {
	e := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: key}
	if rest, ok := strings.CutPrefix(key, "Shift+"); ok {
		e.Modifiers, key = shift, rest
		e.Key = rest
	}
	if n, ok := named[key]; ok {
		e.Code, e.WindowsVirtualKeyCode, e.Text = key, n.code, n.text
		if key == "Space" {
			e.Key = " "
		}
	} else {
		e.Text = key
		e.WindowsVirtualKeyCode = int64(strings.ToUpper(key)[0])
		if strings.ToLower(key) != key || key == "?" {
			e.Modifiers |= shift
		}
	}
	if e.Text == "" {
		e.Type = input.DispatchKeyEventTypeRawKeyDown
	}
	e.UnmodifiedText = e.Text
	if _, err := cdp.Call(ctx, s, input.DispatchKeyEvent, e); err != nil {
		return err
	}
	e.Type, e.Text, e.UnmodifiedText = input.DispatchKeyEventTypeKeyUp, "", ""
	_, err := cdp.Call(ctx, s, input.DispatchKeyEvent, e)
	return err
}
