package models

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

func TestManifest(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range List() {
		if e.Name == "" || seen[e.Name] {
			t.Errorf("name %q is empty or not unique", e.Name)
		}
		seen[e.Name] = true
		if seen[e.File] || filepath.Base(e.File) != e.File {
			t.Errorf("%s: file %q is not one file in this folder of its own", e.Name, e.File)
		}
		seen[e.File] = true
		if e.Note == "" || e.Config == "" || e.Version < 1 || checkName(e.Name) != nil {
			t.Errorf("%s lacks something: %+v", e.Name, e)
		}
		if e.Trained == (len(e.Rules) == 0) {
			t.Errorf("%s: trained is %v, but the rules it was trained on are %v", e.Name, e.Trained, e.Rules)
		}
		file, got, err := Open(e.Name)
		if err != nil {
			t.Error(err)
		}
		if got.Name != e.Name || len(file) == 0 {
			t.Errorf("Open(%q) gave %d bytes of %q", e.Name, len(file), got.Name)
		}
	}
	onDisk := gametest.Must(filepath.Glob("*.safetensors*"))(t)
	for _, file := range onDisk {
		if !seen[file] {
			t.Errorf("%s is not in the manifest", file)
		}
	}
}

func TestOpenUnknown(t *testing.T) {
	_, _, err := Open("nonesuch")
	if want := `model "nonesuch" is unknown; there are: default, default-fast, seeded-2x16`; err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

// The shipped book agrees with scores published by others.
func TestExactBook(t *testing.T) {
	if ExactBook(game.TicTacToe) != nil {
		t.Error("there is a book of tic-tac-toe")
	}
	book, board := ExactBook(game.Connect4), game.MustBoard(game.Connect4)
	if score, ok := book.Score(game.Position{}); !ok || score != 1 {
		t.Errorf("the empty board has score %d (%v), want 1: won with the last stone but one", score, ok)
	}
	known := 0
	for _, line := range gametest.DataLines(t, "book6_7x6x4") {
		var moves string
		var want int
		if _, err := fmt.Sscan(line, &moves, &want); err != nil {
			t.Fatal(err)
		}
		p, _, err := board.ParseMoves(moves)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := book.Score(p); ok {
			known++
			if got != want {
				t.Errorf("%s: score %d, want %d", moves, got, want)
			}
		}
	}
	if known < 500 {
		t.Errorf("the book has %d of these positions", known)
	}
}
