package arena_test

import (
	"os"
	"path/filepath"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/arena"
	"github.com/evald/evald/engine/durable/durabletest"
)

// If a byte of a record is wrong, in the file or in its journal, the record is refused, or it has the games that were played
// except the last one, which is played again.
func TestDamaged(t *testing.T) {
	m := newMatch(t, 3, 1, "random", "uct:sims=5")
	games := play(t, m, nil)
	dir := t.TempDir()
	path := filepath.Join(dir, "games.parquet")
	keep(t, open(t, path, m), games[:2])
	r := open(t, path, m)
	for _, g := range games[2:] {
		if err := r.Add(g); err != nil {
			t.Fatal(err)
		}
	}
	killed := t.TempDir()
	if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	keep(t, r, nil)
	for i, g := range games {
		if int(g.Number) != i+1 {
			t.Fatalf("game %d is number %d", i, g.Number)
		}
	}
	durabletest.Damage(t, killed, 3, nil, func(dir string) (string, error) {
		r, err := arena.OpenRecord(filepath.Join(dir, "games.parquet"), m, source)
		if err != nil {
			return "", err
		}
		for _, g := range r.Games() {
			if diff := gocmp.Diff(games[g.Number-1], g); diff != "" {
				return diff, r.Close()
			}
		}
		if len(r.Games()) < len(games)-1 {
			return "games are missing", r.Close()
		}
		return "", r.Close()
	})
}
