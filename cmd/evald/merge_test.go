package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/record/recordtest"
)

// Exact results are merged without the positions that networks are measured on, the same again after a kill, and train refuses
// records that have one of these positions.
func TestMerge(t *testing.T) {
	exact, sets, dir := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "merged")
	must(t, "", "positions", "-o", exact, "--train", "--rules", "5x4x4", "--kinds", "random", "--count", "1000", "--seed", "5")
	must(t, "", "positions", "-o", sets, "--rules", "5x4x4", "--kinds", "random", "--count", "100", "--seed", "6")
	records, set := filepath.Join(exact, "random-00000.parquet"), filepath.Join(sets, "random.txt")
	args := []string{"merge", records, "-o", dir, "--rules", "5x4x4", "--without", set, "--seed", "3"}
	out := must(t, "", args...)
	said := regexp.MustCompile(`^\S+/merged: (\d+) records in 1 files, of (\d+) records with (\d+) positions; (\d+) were left out, because they are in sets of --without\n$`).FindStringSubmatch(out)
	if said == nil || said[1] != said[3] || said[4] == "0" {
		t.Errorf("output %q", out)
	}
	merged := filepath.Join(dir, "merged-00000.parquet")
	before := getFile(t, merged)
	gametest.OK(t, os.Remove(merged))
	if again := must(t, "", args...); again != out || !bytes.Equal(before, getFile(t, merged)) {
		t.Errorf("again: output %q", again)
	}
	out = must(t, "", "merge", records, "-o", dir+"2", "--rules", "5x4x4", "--records", "3000", "--shares", "0-9=1,10-19=2", "--matter", "0.5")
	if !regexp.MustCompile(`: 3000 records in 1 files, .*; 0 were left out.*\n +stones +positions +the move matters +records\n +0-9 .* 1000\n +10-19 .* 2000\n$`).MatchString(out) {
		t.Errorf("output %q", out)
	}
	tiny := []string{"train", "-o", filepath.Join(t.TempDir(), "run"), "--rules", "5x4x4", "--network", "1x4/4/6", "--batch", "32", "--steps", "3", "--threads", "1", "--without", set}
	refuses(t, exitBadInput, "is in a set that must not be learned from", "", append(tiny, records)...)
	must(t, "", append(tiny, merged)...)

	network := filepath.Join(tiny[2], "network.safetensors")
	out = must(t, "", "merge", records, "-o", dir+"5", "--rules", "5x4x4", "--records", "3000", "--importance", network)
	drawn := regexp.MustCompile(`: (\d+) records in 1 files, `).FindStringSubmatch(out)
	if drawn == nil || !slices.Contains([]string{"2999", "3000", "3001"}, drawn[1]) {
		t.Errorf("output %q", out)
	}
	weights := map[float32]bool{}
	for _, rec := range recordtest.Read(t, filepath.Join(dir+"5", "merged-00000.parquet")) {
		weights[rec.Weight] = true
	}
	if len(weights) < 100 || !strings.Contains(string(getFile(t, filepath.Join(dir+"5", "merge.json"))), `"importance": "`) {
		t.Errorf("records have %d different weights", len(weights))
	}

	sure := filepath.Join(t.TempDir(), "sure")
	must(t, "", "positions", "-o", sure, "--train", "--rules", "5x4x4", "--kinds", "random", "--count", "1000", "--seed", "5", "--importance", network)
	heavy := 0
	for _, rec := range recordtest.Read(t, filepath.Join(sure, "random-00000.parquet")) {
		if rec.Weight > 1 {
			heavy++
		}
	}
	if heavy == 0 || !strings.Contains(string(getFile(t, filepath.Join(sure, "positions.json"))), `"importance": "`) {
		t.Errorf("%d records have more weight than 1", heavy)
	}
	refuses(t, exitBadInput, "the run has importance", "", "positions", "-o", sure, "--train", "--rules", "5x4x4", "--kinds", "random", "--count", "1000", "--seed", "5")
	refuses(t, exitUsage, "takes no --importance", "", "positions", "-o", sure+"2", "--train", "--kinds", "book", "--importance", "default")
	refuses(t, exitUsage, "--importance does nothing without --train", "", "positions", "-o", sure+"2", "--importance", "default")

	putFile(t, set+".bad", "12 0\n12x 0\n")
	in := func(more ...string) []string {
		return append([]string{"merge", records, "-o", filepath.Join(t.TempDir(), "other"), "--rules", "5x4x4"}, more...)
	}
	for text, args := range map[string][]string{
		"the run has seed 3, and now it is 0":           {"merge", records, "-o", dir, "--rules", "5x4x4", "--without", set},
		"is of 5x4x4, and the others are of 7x6x4":      {"merge", records, "-o", dir + "3"},
		"only exact results can be merged":              {"merge", recordsFile(t, 10, nil), "-o", dir + "4"},
		set + ".bad: line 2: ":                          in("--without", set+".bad"),
		"--shares 0-9: want FROM-TO=SHARE":              in("--records", "9", "--shares", "0-9"),
		"--shares 0-99=1: want FROM-TO=SHARE":           in("--records", "9", "--shares", "0-99=1"),
		"--shares 5=0: want FROM-TO=SHARE":              in("--records", "9", "--shares", "5=0"),
		"--shares 8-9=1: 8 stones have a share already": in("--records", "9", "--shares", "5-8=1,8-9=1"),
		"there is no position of 0 to 1 stones":         in("--records", "9", "--shares", "0-1=1"),
		"--matter":                                      in("--records", "9", "--matter", "1.5"),
		"--shares does nothing without --records":       in("--shares", "5=1"),
		"--importance does nothing without --records":   in("--importance", network),
		"--importance: ":                                in("--records", "9", "--importance", records),
	} {
		if status, _, stderr := evald(t, "", args...); status != exitBadInput && status != exitUsage || !strings.Contains(stderr, text) {
			t.Errorf("%v: status %d, errors %q, want %q", args, status, stderr, text)
		}
	}
}
