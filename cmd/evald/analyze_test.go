package main

import (
	"slices"
	"strings"
	"testing"
)

// The answers are the same as those of evald search.
func TestAnalyze(t *testing.T) {
	status, out, stderr := evald(t, "{\"id\":\"a\",\"moves\":\"334\",\"visits\":50}\n{\"id\":\"b\",\"moves\":\"44\"}\n", "analyze", "--backend", "bitsquares", "--visits", "30")
	lines := slices.Sorted(strings.Lines(out))
	if status != exitOK || stderr != "" || len(lines) != 2 {
		t.Fatalf("status %d, errors %q, output\n%s", status, stderr, out)
	}
	for i, visits := range []string{"50", "30"} {
		position := []string{"334", "44"}[i]
		_, want, _ := evald(t, position+"\n44\n", "search", "--backend", "bitsquares", "--visits", visits)
		first, _, _ := strings.Cut(want, "\n")
		if _, want, _ = strings.Cut(first, `"position"`); !strings.Contains(lines[i], want) {
			t.Errorf("analyze: %s\nsearch: %s", lines[i], want)
		}
	}
}

func TestAnalyzeWrongUse(t *testing.T) {
	status, out, stderr := evald(t, "nonsense\n{\"id\":\"a\",\"moves\":\"1212121\"}\n", "analyze", "--backend", "bitsquares")
	if status != exitBadInput || stderr != "evald: 1 of 2 queries refused; their answers say why\n" || strings.Count(out, "\n") != 2 {
		t.Errorf("status %d, errors %q, output\n%s", status, stderr, out)
	}
}
