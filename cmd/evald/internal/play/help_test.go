package play

import (
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
)

// Whatever the size of the terminal, each word of the help can be reached, and all keys but those that scroll lead back.
func TestHelpScrolls(t *testing.T) {
	for _, size := range []tea.WindowSizeMsg{{Width: 80, Height: 24}, {Width: 40, Height: 12}, {Width: 60, Height: 23}, {Width: 20, Height: 5}, {Width: 9, Height: 2}, {Width: 40, Height: 1}} {
		for _, by := range []string{"down", "space", "pgdown"} {
			d := drive(t, config(t, "-", nil))
			d.take(size)
			d.press("?")
			var seen []string
			for page, last := d.helpPage(), ""; page != last; page, last = d.helpPage(), page {
				if lines := strings.Count(page, "\n") + 1; lines > size.Height {
					t.Fatalf("%v: %d lines", size, lines)
				}
				for _, line := range strings.Split(escapes.ReplaceAllString(page, ""), "\n") {
					if len([]rune(line)) > size.Width {
						t.Fatalf("%v: %q is too wide", size, line)
					}
					if len(seen) == 0 || seen[len(seen)-1] != line {
						seen = append(seen, line)
					}
				}
				if d.press(by); !d.help { // it is all on one page
					break
				}
			}
			shown := strings.Join(strings.Fields(strings.Join(seen, "")), "")
			for line := range strings.SplitSeq(strings.Join(wrap(d.helpText(), size.Width), "\n"), "\n") {
				if !strings.Contains(shown, strings.Join(strings.Fields(line), "")) {
					t.Errorf("%v, %s: %q cannot be reached", size, by, line)
				}
			}
			if d.help {
				d.press("up", "pgup", "4")
			}
			if d.help || d.moves() != "-" {
				t.Errorf("%v: a key that does not scroll leaves the help open, or plays", size)
			}
		}
	}
}

func TestHelpNarrow(t *testing.T) {
	m := view(t, "-", 40, 12)
	m.help = true
	golden(t, "help_narrow.txt", m.View().Content)
	for range 100 {
		m.scrollHelp("down")
	}
	golden(t, "help_narrow_end.txt", m.View().Content)
}

// Wrapped text has the same words, in lines that are not too wide.
func TestWrap(t *testing.T) {
	const text = "H            the best move, and what follows\n\nshort\naverylongwordthatfitsnowhere  and more"
	for width := range 60 {
		lines := wrap(text, width)
		for _, line := range lines {
			if len(line) > max(1, width) {
				t.Fatalf("width %d: %q", width, line)
			}
		}
		squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }
		if got := squeeze(strings.Join(lines, " ")); got != squeeze(text) {
			t.Fatalf("width %d: the words are %q", width, got)
		}
	}
}
