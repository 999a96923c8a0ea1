package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// Records appear, the run continues, and errors are reported.
func TestSelfplay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	args := strings.Fields("selfplay --backend bitsquares --visits 20 --fast-visits 5 --seed 3 -o " + dir + " --games")
	status, out, stderr := evald(t, "", append(args, "6")...)
	if status != exitOK || !strings.HasPrefix(out, "6 games, of which 6 were played now") || !strings.Contains(stderr, "7x6x4 by bitsquares, 6 games; 20 visits for 0.25") {
		t.Errorf("status %d, output %q, errors %q", status, out, stderr)
	}
	if status, out, _ = evald(t, "", append(args, "8")...); status != exitOK || !strings.HasPrefix(out, "8 games, of which 2 were played now") {
		t.Errorf("two more: status %d, output %q", status, out)
	}
	refuses(t, exitBadInput, "visits 20, and now it is 21", "", append(args, "8", "--visits", "21")...)
}

// The configuration of a run includes whether a network's answers are mirrored.
func TestSelfplayMirror(t *testing.T) {
	args := strings.Fields("selfplay --model seeded-2x16 --backend cpu --visits 4 --full-share 1 --games 1 -o " + filepath.Join(t.TempDir(), "run"))
	if status, _, stderr := evald(t, "", append(args, "--mirror")...); status != exitOK || !strings.Contains(stderr, "by seeded-2x16, mirrored, 1 games; 4 visits a move;") {
		t.Errorf("status %d, errors %q", status, stderr)
	}
	refuses(t, exitBadInput, `network "seeded-2x16, mirrored", and now it is "seeded-2x16"`, "", args...)
}
