package main

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/record/recordtest"
)

// With several games, sets and records are those of each game alone, in a folder of its own.
func TestSeveralGames(t *testing.T) {
	const small, free = "5x4x4", "3x3x3free"
	both := t.TempDir()
	out := must(t, "", "positions", "-o", both, "--rules", small+","+free, "--count", "20", "--kinds", "random,openings")
	if strings.Count(out, ": 20 positions of ") != 4 {
		t.Errorf("output %q", out)
	}
	exact := t.TempDir()
	must(t, "", "positions", "-o", exact, "--train", "--rules", small+","+free, "--kinds", "random", "--count", "1000")
	records := gametest.Must(filepath.Glob(filepath.Join(exact, "*", "*.parquet")))(t)
	if len(records) != 2 {
		t.Fatalf("records %v", records)
	}
	for _, rules := range []string{small, free} {
		alone := filepath.Join(t.TempDir(), rules)
		must(t, "", "positions", "-o", alone, "--rules", rules, "--count", "20", "--kinds", "random,openings")
		for name, text := range readSets(t, alone) {
			if string(getFile(t, filepath.Join(both, rules, name))) != text {
				t.Errorf("%s: %s is another with a second game beside it", rules, name)
			}
		}
	}

	// Their positions are solved again, each file with its game.
	again := t.TempDir()
	for _, file := range records { // files of one command are in one folder
		must(t, "", "positions", file, "-o", again, "--train", "--rules", small+","+free)
	}
	if files := gametest.Must(filepath.Glob(filepath.Join(again, "*", "random-00000.parquet")))(t); len(files) != 2 {
		t.Errorf("records of records %v", files)
	}

	merged := t.TempDir()
	out = must(t, "", append([]string{"merge", "-o", merged, "--rules", small + "," + free + "=2", "--records", "3000", "--shares", "roots"}, records...)...)
	for rules, want := range map[string]int{small: 1000, free: 2000} {
		var got, stones, twice int
		of := map[int]int{}
		for _, rec := range recordtest.Read(t, filepath.Join(merged, rules, "merged-00000.parquet")) {
			got++
			of[rec.Position.Plies()]++
		}
		if got != want {
			t.Errorf("%s has %d records, want %d", rules, got, want)
		}
		// Four times the positions are twice the records.
		table := regexp.MustCompile(`(?m)^ +(\d+)-\d+ +(\d+) +\d+ +(\d+)$`).FindAllStringSubmatch(out[strings.Index(out, filepath.Join(merged, rules)):], -1)
		for i, row := range table[:4] {
			plies, positions, drawn := whole(t, row[1]), whole(t, row[2]), whole(t, row[3])
			if i == 0 {
				stones, twice = positions, drawn
				continue
			}
			if drawn != of[plies] || stones == 0 || twice == 0 {
				t.Errorf("%s: %q, but %d were drawn", rules, row[0], of[plies])
			}
			if ratio := float64(drawn*drawn) / float64(positions) / (float64(twice*twice) / float64(stones)); ratio < 0.7 || ratio > 1.4 {
				t.Errorf("%s: %d records of %d positions, %d of %d: not as their roots", rules, drawn, positions, twice, stones)
			}
		}
	}

	// What one game has not does not end the command where there are others.
	hard := t.TempDir()
	status, _, stderr := evald(t, "", "positions", "-o", hard, "--rules", "8x8x4,4x4x3", "--count", "5", "--kinds", "openings,random", "--nodes", "1")
	if status != exitOK || !strings.Contains(stderr, "there is no file of openings play of 8x8x4: ") {
		t.Errorf("status %d, errors %q", status, stderr)
	}
	if files := gametest.Must(filepath.Glob(filepath.Join(hard, "*", "*.txt")))(t); len(files) == 0 {
		t.Error("no set was made")
	}

	for text, args := range map[string][]string{
		"no file has records of 4x4x4":                       {"merge", records[0], records[1], "-o", t.TempDir(), "--rules", small + "," + free + ",4x4x4"},
		"is of 3x3x3free, and --rules is 5x4x4,4x4x4":        {"merge", records[0], records[1], "-o", t.TempDir(), "--rules", small + ",4x4x4"},
		"is of 3x3x3free, and --rules is 5x4x4,4x4x4: leave": {"positions", records[0], records[1], "-o", t.TempDir(), "--train", "--rules", small + ",4x4x4"},
	} {
		refuses(t, exitBadInput, text, "", args...)
	}
	refuses(t, exitUsage, "is there twice", "", "positions", "-o", t.TempDir(), "--rules", "5x4x4,5x4x4")
}

func whole(t *testing.T, text string) int {
	t.Helper()
	return gametest.Must(strconv.Atoi(text))(t)
}
