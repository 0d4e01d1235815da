package console

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

var sheet = regexp.MustCompile(`--accent: light-dark\((#\w{6}), (#\w{6})\); --accent-soft: light-dark\((#\w{6}), (#\w{6})\); --button: (#\w{6}); --on-button: (#\w{6});`)

func TestAnyColourCanBeReadInBothSchemes(t *testing.T) {
	for _, text := range []string{"#ffffff", "#000000", "#ffe600", "#3f4bd1", "#7f7f7f", "#00ff00", "#0000ff", "#ff0000", "#767676", "#e8e7e2", "#17181b"} {
		css, err := BrandStylesheet(text)
		require.NoError(t, err)
		found := sheet.FindStringSubmatch(string(css))
		require.Len(t, found, 7, "%s", css)
		at := func(i int) colour {
			c, err := parse(found[i])
			require.NoError(t, err)
			return c
		}
		for what, pair := range map[string][2]colour{
			"accent, light": {at(1), lightSurface}, "accent, dark": {at(2), darkSurface},
			"accent on soft, light": {at(1), at(3)}, "accent on soft, dark": {at(2), at(4)},
			"text on soft, light": {lightText, at(3)}, "text on soft, dark": {darkText, at(4)}, "button": {at(6), at(5)},
		} {
			require.GreaterOrEqual(t, contrast(pair[0], pair[1]), readable, "%s: %s", text, what)
		}
		require.Equal(t, text, found[5], "the button is the colour itself")
	}
}

func TestAColourThatCanBeReadStays(t *testing.T) {
	css, err := BrandStylesheet("#3f4bd1")
	require.NoError(t, err)
	require.Contains(t, string(css), "light-dark(#3f4bd1, ")
}

func TestWhatIsNoColour(t *testing.T) {
	for _, text := range []string{"", "red", "#fff", "#12345g", "#1234567", "+123456", "#+12345"} {
		_, err := BrandStylesheet(text)
		require.Error(t, err, fmt.Sprint(text))
	}
}

func TestContrastIsThatOfTheStandard(t *testing.T) {
	require.InDelta(t, 21, contrast(black, white), 0.001)
	require.InDelta(t, 4.54, contrast(colour{0x76, 0x76, 0x76}, white), 0.01)
}
