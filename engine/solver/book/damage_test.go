package book_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evald/evald/engine/durable/durabletest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/solver/book"
)

// A build that finds a damaged byte in its journal still ends with the same book. A book with a damaged byte is refused.
func TestDamaged(t *testing.T) {
	b := game.MustBoard(game.Rules{Columns: 4, Rows: 4, InARow: 4, Gravity: true})
	dir := t.TempDir()
	path := filepath.Join(dir, "x.book")
	m := newMinimax(b)
	m.budget = 150
	if _, err := book.Build(t.Context(), path, b, 5, []book.Solve{m.solve}, nil); !errors.Is(err, errStop) {
		t.Fatal(err)
	}
	m.budget = 0
	part, err := os.ReadFile(path + ".part")
	if err != nil || len(part) < 150 {
		t.Fatalf("%d bytes of journal, %v", len(part), err)
	}
	build := func(dir string) (string, error) {
		path := filepath.Join(dir, "x.book")
		if _, err := book.Load(path); err == nil || !os.IsNotExist(errors.Unwrap(err)) {
			return "", err // if there is a book, it is read
		}
		_, err := book.Build(t.Context(), path, b, 5, []book.Solve{m.solve}, nil)
		if err != nil {
			return "", err
		}
		text, err := os.ReadFile(path)
		return string(text), err
	}
	finished := t.TempDir()
	want, err := build(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(finished, "x.book"), []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
	durabletest.Damage(t, finished, 1, nil, func(dir string) (string, error) {
		_, err := book.Load(filepath.Join(dir, "x.book"))
		return "", err
	})
	for at := range part {
		damaged := t.TempDir()
		text := bytes.Clone(part)
		text[at] ^= 0x11
		if err := os.WriteFile(filepath.Join(damaged, "x.book.part"), text, 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := build(damaged); err != nil || got != want {
			t.Fatalf("byte %d of the journal: another book, %v", at, err)
		}
	}
}

// Two builds of one book do not disturb each other: the second is refused at once.
func TestInUse(t *testing.T) {
	b := game.MustBoard(game.Rules{Columns: 4, Rows: 4, InARow: 4, Gravity: true})
	path := filepath.Join(t.TempDir(), "x.book")
	m := newMinimax(b)
	solve := func(ctx context.Context, p game.Position) (int, error) {
		_, err := book.Build(ctx, path, b, 2, []book.Solve{m.solve}, nil)
		if err == nil || !strings.Contains(err.Error(), "another program is building this book") || !strings.Contains(err.Error(), path) {
			t.Errorf("a second build: %v", err)
		}
		return m.solve(ctx, p)
	}
	if _, err := book.Build(t.Context(), path, b, 2, []book.Solve{solve}, nil); err != nil {
		t.Fatal(err)
	}
}
