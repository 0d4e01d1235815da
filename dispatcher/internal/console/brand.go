package console

import (
	"fmt"
	"math"
	"strconv"
)

// readable is the contrast that text needs, from WCAG 2.2 AA.
const readable = 4.5

// softness is the share of the accent colour in the background of selected items.
const softness = 0.12

// Backgrounds and text colours of the light and the dark scheme, as in
// assets/css/00-tokens.css.
var (
	lightSurface, lightText = colour{0xfa, 0xfa, 0xf8}, colour{0x1a, 0x1a, 0x18}
	darkSurface, darkText   = colour{0x17, 0x18, 0x1b}, colour{0xed, 0xed, 0xea}
	black, white            = colour{0, 0, 0}, colour{0xff, 0xff, 0xff}
)

// colour is red, green and blue, 0 to 255.
type colour [3]float64

// BrandStylesheet sets the accent and the primary button to a colour, #rrggbb. If it can't be
// read on a scheme's background, that scheme gets a darker or lighter one.
func BrandStylesheet(text string) ([]byte, error) {
	c, err := parse(text)
	if err != nil {
		return nil, err
	}
	light, dark := c.readableOn(lightSurface, black), c.readableOn(darkSurface, white)
	on := white
	if contrast(c, black) > contrast(c, white) {
		on = black
	}
	return fmt.Appendf(nil, ":root { --accent: light-dark(%s, %s); --accent-soft: light-dark(%s, %s); --button: %s; --on-button: %s; }\n",
		light, dark, light.soft(lightSurface, lightText), dark.soft(darkSurface, darkText), c, on), nil
}

func parse(text string) (c colour, err error) {
	if len(text) != 7 || text[0] != '#' {
		return c, fmt.Errorf("colour %q: must be #rrggbb", text)
	}
	n, err := strconv.ParseUint(text[1:], 16, 24)
	if err != nil {
		return c, fmt.Errorf("colour %q: must be #rrggbb", text)
	}
	return colour{float64(n >> 16), float64(n >> 8 & 0xff), float64(n & 0xff)}, nil
}

// String returns #rrggbb.
func (c colour) String() string {
	return fmt.Sprintf("#%02x%02x%02x", int(math.Round(c[0])), int(math.Round(c[1])), int(math.Round(c[2])))
}

// towards mixes a share of another colour in.
func (c colour) towards(other colour, part float64) colour {
	for i := range c {
		c[i] = math.Round(c[i] + (other[i]-c[i])*part)
	}
	return c
}

// readableOn returns the colour nearest to c, between c and end, that is readable on a
// background and on its own soft shade of it.
func (c colour) readableOn(surface, end colour) colour {
	for part := 0.0; part < 1; part += 0.02 {
		mixed := c.towards(end, part)
		if contrast(mixed, surface) >= readable && contrast(mixed, surface.towards(mixed, softness)) >= readable {
			return mixed
		}
	}
	return end
}

// soft returns the background of selected items, on which text is readable.
func (c colour) soft(surface, text colour) colour {
	for part := softness; part > 0; part -= 0.02 {
		if mixed := surface.towards(c, part); contrast(mixed, text) >= readable {
			return mixed
		}
	}
	return surface
}

// contrast returns the contrast ratio of two colours, 1 to 21, from WCAG.
func contrast(a, b colour) float64 {
	x, y := a.luminance(), b.luminance()
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func (c colour) luminance() float64 {
	weights := [3]float64{0.2126, 0.7152, 0.0722}
	sum := 0.0
	for i, v := range c {
		v /= 255
		if v <= 0.04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		sum += weights[i] * v
	}
	return sum
}
