package short

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                              "",
		"short":                         "short",
		"caf\xe9":                       "caf?",
		strings.Repeat("x", 200):        strings.Repeat("x", 200),
		strings.Repeat("x", 201):        strings.Repeat("x", 198) + "..",
		strings.Repeat("€", 1000):       strings.Repeat("€", 66) + "..",
		strings.Repeat("ä", 101):        strings.Repeat("ä", 99) + "..",
		strings.Repeat("x", 197) + "€€": strings.Repeat("x", 197) + "..",
	} {
		if got := Text(in); got != want {
			t.Errorf("%.20q: %q, want %q", in, got, want)
		}
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"":                         `""`,
		"a\"b":                     `"a\"b"`,
		strings.Repeat("x", 198):   `"` + strings.Repeat("x", 198) + `"`,
		strings.Repeat("x", 199):   `"` + strings.Repeat("x", 196) + `"..`,
		strings.Repeat("\x00", 90): `"` + strings.Repeat(`\x00`, 49) + `"..`,
	} {
		if got := Quote(in); got != want {
			t.Errorf("%.20q: %s, want %s", in, got, want)
		}
	}
}

// Whatever a text is, it comes out short, valid, and as its own beginning.
func FuzzShort(f *testing.F) {
	f.Add(strings.Repeat("\xff", 300))
	f.Add(strings.Repeat("€\x80", 100))
	f.Fuzz(func(t *testing.T, s string) {
		for name, got := range map[string]string{"Text": Text(s), "Quote": Quote(s)} {
			if len(got) > Most || !utf8.ValidString(got) {
				t.Errorf("%s(%q): %d bytes, %q", name, s, len(got), got)
			}
		}
		quoted := strings.TrimSuffix(Quote(s), "..")
		if back, err := strconv.Unquote(quoted); err != nil || !strings.HasPrefix(s, back) {
			t.Errorf("Quote(%q) = %s stands for %q, %v", s, quoted, back, err)
		}
	})
}
