package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Part is the document of a tab, or the content of one of its elements. It finds
// elements by the role and the name that a screen reader uses. A name must match as a
// whole, or as a part if no element matches as a whole. Exactly one element must
// match, and it must be visible.
type Part struct {
	tab  *Tab
	path []element // from the document down; empty: the whole document
}

// An element has a role and a name.
type element struct{ role, name string }

func (e element) String() string { return fmt.Sprintf("%s %q", e.role, e.name) }

// In returns the content of an element: a dialog, a row, a region.
func (p Part) In(role, name string) Part {
	return Part{tab: p.tab, path: append(slices.Clone(p.path), element{role, name})}
}

// Click clicks an element in its middle, once no other element is in front of it.
func (p Part) Click(role, name string) {
	p.tab.t.Helper()
	p.act("click", role, name, func(ctx context.Context, s *chromedp.Target, id runtime.RemoteObjectID) error {
		return click(ctx, s, id)
	})
}

// Fill types a text into a field and replaces the old text.
func (p Part) Fill(role, name, text string) {
	p.tab.t.Helper()
	p.act("fill", role, name, func(ctx context.Context, s *chromedp.Target, id runtime.RemoteObjectID) error {
		if err := on[bool](ctx, s, id, `function () { this.focus(); this.select(); return document.activeElement === this }`, nil); err != nil {
			return err
		}
		if text == "" {
			return press(ctx, s, "Delete")
		}
		_, err := cdp.Call(ctx, s, input.InsertText, input.InsertTextParams{Text: text})
		return err
	})
}

// Choose chooses an option of a list by its text.
func (p Part) Choose(name, option string) {
	p.tab.t.Helper()
	p.act("choose "+option, "combobox", name, func(ctx context.Context, s *chromedp.Target, id runtime.RemoteObjectID) error {
		var found bool
		err := on(ctx, s, id, fmt.Sprintf(`function () {
			const o = [...this.options].find(o => o.text.trim() === %q || o.value === %q);
			if (!o) return false;
			this.value = o.value;
			this.dispatchEvent(new Event("input", {bubbles: true}));
			this.dispatchEvent(new Event("change", {bubbles: true}));
			return true;
		}`, option, option), &found)
		if err == nil && !found {
			err = fmt.Errorf("it has no option %q", option)
		}
		return err
	})
}

// Focus sets the focus on an element.
func (p Part) Focus(role, name string) {
	p.tab.t.Helper()
	p.act("focus", role, name, func(ctx context.Context, s *chromedp.Target, id runtime.RemoteObjectID) error {
		return on[bool](ctx, s, id, `function () { this.focus({focusVisible: true}); return true }`, nil)
	})
}

// Value returns the value of a field. A checkbox returns true or false.
func (p Part) Value(role, name string) (value string) {
	p.tab.t.Helper()
	p.act("read", role, name, func(ctx context.Context, s *chromedp.Target, id runtime.RemoteObjectID) error {
		return on(ctx, s, id, `function () { return this.type === "checkbox" || this.type === "radio" ? String(this.checked) : String(this.value) }`, &value)
	})
	return value
}

// Text returns the visible text, with one space between words.
func (p Part) Text() (text string) {
	p.tab.t.Helper()
	p.tab.until("read "+p.String(), func(ctx context.Context) error {
		var err error
		text, err = chromedp.Run(ctx, p.text())
		return err
	})
	return text
}

// WaitFor polls until all of texts are visible.
func (p Part) WaitFor(texts ...string) {
	p.tab.t.Helper()
	for _, text := range texts {
		p.wait(text, true)
	}
}

// WaitGone polls until none of texts is visible.
func (p Part) WaitGone(texts ...string) {
	p.tab.t.Helper()
	for _, text := range texts {
		p.wait(text, false)
	}
}

func (p Part) wait(text string, there bool) {
	p.tab.t.Helper()
	want := plain(text)
	p.tab.until(fmt.Sprintf("%s shows %q: %t", p, text, there), func(ctx context.Context) error {
		shown, err := chromedp.Run(ctx, p.text())
		if err == nil && strings.Contains(shown, want) != there {
			err = fmt.Errorf("it shows: %s", shown)
		}
		return err
	})
}

// Has reports whether the part has a visible element now.
func (p Part) Has(role, name string) bool {
	p.tab.t.Helper()
	return len(p.Names(role, name)) > 0
}

// Names returns the names of the visible elements with a role whose name contains
// part.
func (p Part) Names(role, part string) (names []string) {
	p.tab.t.Helper()
	p.tab.until("look at "+p.String(), func(ctx context.Context) error {
		var err error
		names, err = chromedp.Run(ctx, func(ctx context.Context, s *chromedp.Target) ([]string, error) {
			root, err := p.root(ctx, s)
			if err != nil {
				return nil, err
			}
			found, err := query(ctx, s, root, role)
			if err != nil {
				return nil, err
			}
			names := []string{}
			for _, n := range found {
				if strings.Contains(nameOf(n), plain(part)) {
					names = append(names, nameOf(n))
				}
			}
			return names, nil
		})
		return err
	})
	return names
}

// WaitHas polls until the part has an element.
func (p Part) WaitHas(role, name string) {
	p.tab.t.Helper()
	p.act("find", role, name, func(context.Context, *chromedp.Target, runtime.RemoteObjectID) error { return nil })
}

// String returns the path of the part, for errors.
func (p Part) String() string {
	if len(p.path) == 0 {
		return "the page"
	}
	return fmt.Sprint(p.path[len(p.path)-1])
}

// act runs do on an element and retries it until it succeeds. The page may be
// refreshed between finding the element and do, and may lose the element.
func (p Part) act(what, role, name string, do func(context.Context, *chromedp.Target, runtime.RemoteObjectID) error) {
	p.tab.t.Helper()
	own := p.In(role, name)
	p.tab.until(fmt.Sprintf("%s %s", what, own), func(ctx context.Context) error {
		return chromedp.Do(ctx, chromedp.Func(func(ctx context.Context, s *chromedp.Target) error {
			id, err := own.root(ctx, s)
			if err != nil {
				return err
			}
			return do(ctx, s, id)
		}))
	})
}

func (p Part) text() chromedp.Action[string] {
	return func(ctx context.Context, s *chromedp.Target) (text string, err error) {
		id, err := p.root(ctx, s)
		if err == nil {
			err = on(ctx, s, id, `function () { return (this.body || this).innerText ?? "" }`, &text)
		}
		return plain(text), err
	}
}

// root returns the page's object of the part.
func (p Part) root(ctx context.Context, s *chromedp.Target) (runtime.RemoteObjectID, error) {
	whole, err := cdp.Call(ctx, s, runtime.Evaluate, runtime.EvaluateParams{Expression: "document"})
	if err != nil {
		return "", err
	}
	id := whole.Result.ObjectID
	for _, e := range p.path {
		if id, err = e.within(ctx, s, id); err != nil {
			return "", err
		}
	}
	return id, nil
}

// within finds the one element with its role and name inside another element.
func (e element) within(ctx context.Context, s *chromedp.Target, root runtime.RemoteObjectID) (runtime.RemoteObjectID, error) {
	found, err := query(ctx, s, root, e.role)
	if err != nil {
		return "", err
	}
	names := []string{}
	var exact, near []*accessibility.Node
	for _, n := range found {
		name := nameOf(n)
		names = append(names, name)
		if name == plain(e.name) {
			exact = append(exact, n)
		}
		if strings.Contains(name, plain(e.name)) {
			near = append(near, n)
		}
	}
	if len(exact) == 0 {
		exact = near
	}
	if len(exact) != 1 {
		return "", fmt.Errorf("%d elements are %s; there are %q", len(exact), e, names)
	}
	object, err := cdp.Call(ctx, s, dom.ResolveNode, dom.ResolveNodeParams{BackendNodeID: exact[0].BackendDOMNodeID})
	if err != nil {
		return "", err
	}
	return object.Object.ObjectID, nil
}

func query(ctx context.Context, s *chromedp.Target, root runtime.RemoteObjectID, role string) ([]*accessibility.Node, error) {
	res, err := cdp.Call(ctx, s, accessibility.QueryAXTree, accessibility.QueryAXTreeParams{ObjectID: root, Role: role})
	return slices.DeleteFunc(res.Nodes, func(n *accessibility.Node) bool { return n.Ignored || n.BackendDOMNodeID == 0 }), err
}

func nameOf(n *accessibility.Node) (name string) {
	if n.Name != nil {
		_ = json.Unmarshal(n.Name.Value, &name) // the value is a text
	}
	return plain(name)
}

// plain returns a text with one space between its words.
func plain(text string) string { return strings.Join(strings.Fields(text), " ") }

// on calls a function on an object of the page.
func on[T any](ctx context.Context, s *chromedp.Target, id runtime.RemoteObjectID, function string, value *T) error {
	res, err := cdp.Call(ctx, s, runtime.CallFunctionOn, runtime.CallFunctionOnParams{
		ObjectID: id, FunctionDeclaration: function, ReturnByValue: new(true), UserGesture: new(true), AwaitPromise: new(true),
	})
	if err != nil {
		return err
	}
	if res.ExceptionDetails != nil {
		return fmt.Errorf("%s", thrown(res.ExceptionDetails))
	}
	if value == nil {
		return nil
	}
	return json.Unmarshal(res.Result.Value, value)
}

// spot returns a point where an element can be clicked.
const spot = `function () {
	if (this.disabled) return {why: "it is disabled"};
	this.scrollIntoView({block: "center", inline: "nearest", behavior: "instant"});
	let r = this.getClientRects()[0];
	if (!r || r.width < 2 || r.height < 2) {
		const label = this.labels && this.labels[0];
		r = label && label.getClientRects()[0];
	}
	if (!r) return {why: "it is not drawn"};
	const x = r.x + r.width / 2, y = r.y + r.height / 2;
	const hit = document.elementFromPoint(x, y);
	const label = hit && hit.closest("label");
	if (!hit || !(this.contains(hit) || hit.contains(this) && hit.localName === "label" || label && label.control === this))
		return {why: "in front of it is " + (hit ? hit.outerHTML.slice(0, 120) : "nothing: it is outside")};
	return {x, y, why: ""};
}`

func click(ctx context.Context, s *chromedp.Target, id runtime.RemoteObjectID) error {
	var at struct {
		X, Y float64
		Why  string
	}
	if err := on(ctx, s, id, spot, &at); err != nil {
		return err
	}
	if at.Why != "" {
		return fmt.Errorf("%s", at.Why)
	}
	_, err := chromedp.MouseClickXY(at.X, at.Y)(ctx, s)
	return err
}
