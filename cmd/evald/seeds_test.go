package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The files that engine/SEEDS.md names are there (TestLinks), and have the tests that it names.
func TestSeeds(t *testing.T) {
	folder, rows := filepath.Join(root, "engine"), 0
	groups := regexp.MustCompile("((?:`\\w+`(?:, )?)+) in \\[[\\w.]+\\]\\(([^)]+)\\)")
	for line := range strings.Lines(string(getFile(t, filepath.Join(folder, "SEEDS.md")))) {
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) != 3 || strings.HasPrefix(line, "| seed |") {
			continue
		}
		rows++
		found := groups.FindAllStringSubmatch(cells[2], -1)
		if len(found) == 0 && !strings.HasPrefix(cells[2], "measured") || !strings.Contains(cells[1], "](") {
			t.Errorf("row without code or tests: %s", line)
		}
		for _, group := range found {
			text := string(getFile(t, filepath.Join(folder, filepath.FromSlash(group[2]))))
			for _, name := range regexp.MustCompile(`\w+`).FindAllString(group[1], -1) {
				if !strings.Contains(text, "func "+name+"(t *testing.T)") && !strings.Contains(text, "def "+name+"(self)") {
					t.Errorf("%s has no test %s", group[2], name)
				}
			}
		}
	}
	if rows < 20 {
		t.Errorf("%d rows", rows)
	}
}
