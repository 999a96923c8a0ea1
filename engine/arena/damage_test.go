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
	_, r := killed(t, path, m, games[2:]...)
	left := t.TempDir()
	if err := os.CopyFS(left, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	keep(t, r, nil)
	durabletest.Damage(t, left, 3, nil, func(dir string) (string, error) {
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
