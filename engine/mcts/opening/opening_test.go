package opening_test

import (
	"bytes"
	"compress/gzip"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/mcts/opening"
)

// searched gives a tree this many visits.
func searched(t testing.TB, tree *mcts.Tree, visits int) *mcts.Tree {
	t.Helper()
	e := gametest.Must(heuristic.New(eval.Bitsquares))(t)
	gametest.OK(t, mcts.Search(t.Context(), e, []*mcts.Tree{tree}, mcts.Limits{Visits: visits, Batch: 8}))
	return tree
}

func tree(t testing.TB, b *game.Board, s mcts.Selection, p game.Position) *mcts.Tree {
	t.Helper()
	c := mcts.DefaultConfig(mcts.PUCT)
	c.Selection = s
	tr := gametest.Must(mcts.New(b, c))(t)
	tr.Reset(p)
	return tr
}

func file(t testing.TB, b *opening.Book) []byte {
	t.Helper()
	var out bytes.Buffer
	gametest.OK(t, b.Write(&out))
	return out.Bytes()
}

// A tree that begins with a book has the root of the tree that the book was made from, on boards of all kinds.
func TestWarm(t *testing.T) {
	for i, b := range gametest.Boards() {
		for _, s := range []mcts.Selection{mcts.PUCT, mcts.UCT, mcts.Gumbel} {
			p := gametest.Position(gametest.Rand(uint64(i)), b, min(4, b.Cells()/3), true)
			was := searched(t, tree(t, b, s, p), 1500)
			book := opening.New(b)
			book.Add(was, 1)
			book = gametest.Must(opening.Read(bytes.NewReader(file(t, book))))(t)
			is := tree(t, b, s, p)
			is.Warm(book.Find)
			if is.Visits() != was.Visits() || math.Abs(is.Value()-was.Value()) > 1e-4 || is.Result() != was.Result() {
				t.Fatalf("%v: %d visits, value %v, %v; want %d, %v, %v", b.Rules(), is.Visits(), is.Value(), is.Result(),
					was.Visits(), was.Value(), was.Result())
			}
			moves, want := is.Moves(nil), was.Moves(nil)
			if is.Result() != game.Ongoing && len(moves) == 0 {
				continue // the next stone wins: there are no moves to compare
			}
			for k, m := range moves {
				// The book has one finding for all orders of moves and for mirror images: the best of them.
				if m.Action != want[k].Action || m.Visits < want[k].Visits {
					t.Errorf("%v by %v: move %+v, want %+v", b.Rules(), s, m, want[k])
				}
				if found, ok := book.Find(b.Play(p, m.Action)); m.Result == game.Ongoing && ok && (m.Visits != int(found.Visits) || math.Abs(m.Q+float64(found.Value)) > 1e-3) {
					t.Errorf("%v by %v: move %+v, the book has %+v", b.Rules(), s, m, found)
				}
			}
			// The search continues from there.
			if searched(t, is, 2000); is.Result() == game.Ongoing && is.Visits() != 2000 {
				t.Errorf("%v: %d visits after continuing to 2000", b.Rules(), is.Visits())
			}
		}
	}
}

// A book keeps the better of two findings and forgets positions with few visits. The same findings give the same bytes.
func TestGrowAndPrune(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	book := opening.New(b)
	add := func(visits int) { book.Add(searched(t, tree(t, b, mcts.UCT, game.Position{}), visits), 7) }
	add(500)
	few := book.Positions()
	first, _ := book.Find(game.Position{})
	add(5000)
	if k, ok := book.Find(game.Position{}); !ok || k.Visits != 5000 || first.Visits != 500 {
		t.Errorf("the empty board has %+v after %+v, want 5000 visits after 500", k, first)
	}
	many := file(t, book)
	add(500)
	if !bytes.Equal(file(t, book), many) {
		t.Error("findings with fewer visits changed the book")
	}
	grown := book.Positions()
	book.Prune(100)
	if pruned := book.Positions(); few < 10 || grown <= few || pruned >= grown || pruned < 5 {
		t.Errorf("%d positions, then %d, then %d without those of fewer than 100 visits", few, grown, pruned)
	}
	if k, _ := book.Find(game.Position{}); k.Visits != 5000 {
		t.Errorf("the empty board has %+v after pruning", k)
	}
}

func TestDamage(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	book := opening.New(b)
	book.Add(searched(t, tree(t, b, mcts.UCT, game.Position{}), 300), 3)
	good := file(t, book)
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 0x10
		// Some bits of gzip's header and padding mean nothing. Damage that changes the book is always found.
		if again, err := opening.Read(bytes.NewReader(bad)); err == nil && !bytes.Equal(file(t, again), good) {
			t.Errorf("byte %d of %d damaged: another book was read", i, len(good))
		}
		if _, err := opening.Read(bytes.NewReader(good[:i])); err == nil {
			t.Errorf("%d of %d bytes: read all the same", i, len(good))
		}
	}
	for text, want := range map[string]string{
		"":                                "is not an opening book",
		"evald opening book 2 7x6x4 0\n":  "version",
		"evald opening book 1 7x6 0\n":    "7x6",
		"evald opening book 1 7x6x4 -1\n": `"-1" positions`,
		"evald opening book 1 7x6x4 1\n":  "position 1 of 1: is damaged: unexpected EOF",
		"evald opening book 1 7x6x4 0\nx": "continues after its last position",
		"evald opening book 1 7x6x4 1\n\x00\x00\x00\x00\x00\x00\x00\x00\x00": "0 visits",
		"evald opening book 1 7x6x4 1\n\x00\x40\x00\x00\x01\x00\x00\x00\x00": "a stone is off the board",
		"evald opening book 1 7x6x4 1\n\x00\x01\x00\x01\x01\x00\x00\x00\x00": "1 stone of the side to move, none of the other side",
		"evald opening book 1 7x6x4 1\n\x00\x02\x00\x00\x01\x00\x00\x00\x00": "{2 0}: a stone has nothing below it",
	} {
		_, err := opening.Read(bytes.NewReader(zipped(t, text)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
	path := filepath.Join(t.TempDir(), "x.book")
	if err := os.WriteFile(path, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := opening.Load(path); err == nil || !strings.Contains(err.Error(), path+": is not a gzip file") {
		t.Errorf("junk: error %v", err)
	}
}

func zipped(t testing.TB, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	gametest.Must(z.Write([]byte(text)))(t)
	gametest.OK(t, z.Close())
	return out.Bytes()
}

// A book that was read is written as the same book. Anything else is an error.
func FuzzRead(f *testing.F) {
	f.Add([]byte("evald opening book 1 7x6x4 1\n\x00\x00\x00\x00\x07\x00\x00\x00\x00"))
	f.Add([]byte("evald opening book 1 20x5x4 1\n\x00\x01\x00\x00\x07\xff\xff\x00\x01"))
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := opening.Read(bytes.NewReader(zipped(t, string(text))))
		if err != nil {
			return
		}
		again, err := opening.Read(bytes.NewReader(file(t, b)))
		if err != nil || again.Positions() != b.Positions() || again.Rules() != b.Rules() {
			t.Fatalf("%q: %d positions of %v, then %v", text, b.Positions(), b.Rules(), err)
		}
	})
}
