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

// The exception of a traceback is found before the advice that follows it; other programs' last line is taken.
func TestException(t *testing.T) {
	for in, want := range map[string]string{
		"":                                  "",
		"a warning\nsegmentation fault\n\n": "segmentation fault",
		"Traceback (most recent call last):\n  File \"x.py\", line 3\n    raise ValueError(3)\nValueError: 3\n":                                        "ValueError: 3",
		"torch._dynamo.exc.BackendCompilerFailed: backend raised:\nRuntimeError: no compiler\n\nSet VERBOSE=1 for more (do this to report an Error)\n": "RuntimeError: no compiler",
	} {
		var tail Tail
		if _, err := tail.Write([]byte(in)); err != nil || tail.Exception() != want {
			t.Errorf("%q: %q, %v, want %q", in, tail.Exception(), err, want)
		}
	}
}
