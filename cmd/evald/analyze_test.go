package main

import (
	"strings"
	"testing"
)

// TestCompany compares answers with those of evald search.
func TestAnalyzeWrongUse(t *testing.T) {
	status, out, stderr := evald(t, "nonsense\n{\"id\":\"a\",\"moves\":\"1212121\"}\n", "analyze", "--backend", "bitsquares")
	if status != exitBadInput || stderr != "evald: 1 of 2 queries refused; their answers say why\n" || strings.Count(out, "\n") != 2 {
		t.Errorf("status %d, errors %q, output\n%s", status, stderr, out)
	}
}
