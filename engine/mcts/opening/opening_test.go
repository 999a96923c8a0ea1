package opening_test

import (
	"bytes"
	"compress/gzip"
	"math"
	"math/rand/v2"
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
	"github.com/evald/evald/engine/solver"
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

// slow is a book written in a slow and obvious way: the moves of each canonical position with the values that its search found.
type slow struct {
	b      *game.Board
	moves  map[game.Position]map[int]float64
	values map[game.Position]float64 // that were asked for since the last add
}

func newSlow(b *game.Board) slow {
	return slow{b, map[game.Position]map[int]float64{}, map[game.Position]float64{}}
}

// add is Book.Add. A value of the file is within half of a step of it.
func (s slow) add(t *mcts.Tree) {
	p, mirrored := s.b.Canonical(t.Root())
	s.moves[p] = map[int]float64{}
	clear(s.values)
	for _, m := range t.Moves(nil) {
		a, q := m.Action, m.Q*126/127
		switch {
		case m.Result == game.Win || m.Result == game.Loss:
			q = float64(m.Result.Value())
		case m.Result == game.Ongoing && m.Visits == 0:
			q = -126.0 / 127
		}
		if mirrored {
			a = s.b.MirrorAction(a)
		}
		s.moves[p][a] = q
	}
}

const step = 1.0 / 127

// value is the value of p by minimax; ok is false if p is neither in the book nor over.
func (s slow) value(p game.Position) (value float64, ok bool) {
	if r := s.b.Result(p); r != game.Ongoing {
		return float64(r.Value()), true
	}
	p, _ = s.b.Canonical(p)
	if value, ok = s.values[p]; ok {
		return value, true
	}
	value = -2
	for a := range s.moves[p] {
		v, _ := s.after(p, a)
		value = max(value, v)
	}
	if s.moves[p] != nil {
		s.values[p] = value
	}
	return value, s.moves[p] != nil
}

// after is the value of a move; sure is false if it is that of the search.
func (s slow) after(p game.Position, action int) (value float64, sure bool) {
	if v, ok := s.value(s.b.Play(p, action)); ok {
		return -v, true
	}
	p, mirrored := s.b.Canonical(p)
	if mirrored {
		action = s.b.MirrorAction(action)
	}
	return s.moves[p][action], false
}

// play plays a game from p and adds the searches of positions that the book does not have. A third of the moves are random, the others those
// by which the book grows.
func play(t testing.TB, book *opening.Book, s slow, p game.Position, rule mcts.Selection, r *rand.Rand) (line []game.Position) {
	for s.b.Result(p) == game.Ongoing {
		line = append(line, p)
		if _, ok := book.Value(p); !ok {
			found := searched(t, tree(t, s.b, rule, p), 40)
			if book.Add(found); len(found.Moves(nil)) > 0 {
				s.add(found)
			}
		}
		a, ok := book.Next(p)
		if legal := s.b.Legal(p); !ok || r.IntN(3) == 0 {
			a = s.b.Action(legal.Nth(r.IntN(legal.OnesCount())).First())
		}
		p = s.b.Play(p, a)
	}
	book.BackUp(line)
	return line
}

// A book has the values and best moves of minimax over its searches, on boards of all kinds, and in mirror images, as does its file.
func TestMinimax(t *testing.T) {
	for i, b := range gametest.Boards() {
		r := gametest.Rand(uint64(i))
		book, s := opening.New(b), newSlow(b)
		var met []game.Position
		for range 6 {
			line := play(t, book, s, game.Position{}, []mcts.Selection{mcts.PUCT, mcts.UCT, mcts.Gumbel}[i%3], r)
			for k, p := range line[:len(line)-1] { // a game's result is backed up to its beginning at once
				before, in := book.Value(p)
				after, ok := book.Value(line[k+1])
				if in && ok && before < -after {
					t.Fatalf("%v: %v has value %v, and then %v", b.Rules(), p, before, after)
				}
			}
			met = append(met, line...)
		}
		book.BackUpAll()
		again := gametest.Must(opening.Read(bytes.NewReader(file(t, book))))(t)
		both := 0
		for _, p := range met {
			if r.IntN(2) == 0 {
				p = b.Mirror(p)
			}
			want, in := s.value(p)
			value, ok := book.Value(p)
			if ok != in || ok && math.Abs(value-want) > step/2+1e-6 || math.Abs(want) == 1 != (math.Abs(value) == 1) {
				t.Fatalf("%v: %v has value %v (%t), want %v (%t)", b.Rules(), p, value, ok, want, in)
			}
			if v, ok := again.Value(p); v != value || ok != in {
				t.Fatalf("%v: %v has value %v (%t) in the file, want %v", b.Rules(), p, v, ok, value)
			}
			if !ok {
				continue
			}
			bestSure := -2.0
			for l := b.Legal(p); !l.IsZero(); l = l.WithoutFirst() {
				if v, sure := s.after(p, b.Action(l.First())); sure {
					bestSure = max(bestSure, v)
				}
			}
			next, _ := book.Next(p)
			if v, _ := s.after(p, next); v < want-step {
				t.Errorf("%v: next after %v is %d, of value %v; want %v", b.Rules(), p, next, v, want)
			}
			move, ok := book.Move(p)
			if v, sure := s.after(p, move); ok != (bestSure > -1) || ok && (!sure || v < bestSure-step) {
				t.Errorf("%v: the move in %v is %d (%t), of value %v; want %v", b.Rules(), p, move, ok, v, bestSure)
			}
			if ok && bestSure < want-step {
				both++
			}
		}
		if book.Positions() < min(20, b.Cells()) || book.Positions() != len(s.moves) || b.Cells() > 20 && both == 0 {
			t.Errorf("%v: %d positions, %d of them with a better move that was not searched", b.Rules(), book.Positions(), both)
		}
	}
}

// What a book calls proved is true, for the side to move.
func TestProved(t *testing.T) {
	b := game.MustBoard(game.Rules{Rows: 4, Columns: 5, InARow: 4, Gravity: true})
	exact := gametest.Must(solver.New(b, solver.Options{}))(t)
	book, s, r := opening.New(b), newSlow(b), gametest.Rand(1)
	proved := map[game.Result]int{}
	for range 30 {
		for _, p := range play(t, book, s, game.Position{}, mcts.UCT, r) {
			v, ok := book.Value(p)
			if !ok || math.Abs(v) < 1 {
				continue
			}
			found := gametest.Must(exact.WDL(t.Context(), p))(t)
			if want := game.ResultOf(found.Score); want.Value() != float32(v) {
				t.Errorf("%v has value %v, but is a %v", p, v, want)
			}
			proved[game.ResultOf(found.Score)]++
			if _, ok := book.Move(p); v == -1 && ok {
				t.Errorf("%v is lost, and the book plays a move", p)
			}
		}
	}
	if proved[game.Win] < 10 || proved[game.Loss] < 10 {
		t.Errorf("proved are %v", proved)
	}
}

// Of two results for a position a book keeps that of more visits. The same results give the same bytes.
func TestMoreVisits(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	of := func(visits ...int) []byte {
		book := opening.New(b)
		for _, n := range visits {
			book.Add(searched(t, tree(t, b, mcts.UCT, game.Position{}), n))
		}
		return file(t, book)
	}
	few, many := of(500), of(5000)
	if bytes.Equal(few, many) || !bytes.Equal(of(500, 5000), many) || !bytes.Equal(of(5000, 500), many) {
		t.Error("the book does not keep the search of 5000 visits")
	}
}

func TestDamage(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	book := opening.New(b)
	play(t, book, newSlow(b), game.Position{}, mcts.UCT, gametest.Rand(1))
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
		"evald opening book 1 7x6x4 0\n":  "has version 1 of the format, and this program reads 2: grow it anew",
		"evald opening book 2 7x6 0\n":    "7x6",
		"evald opening book 2 7x6x4 -1\n": `"-1" positions`,
		"evald opening book 2 7x6x4 1\n":  "position 1 of 1: is damaged: unexpected EOF",
		"evald opening book 2 7x6x4 0\nx": "continues after its last position",
		"evald opening book 2 7x6x4 1\n\x00\x00\x00\x00\x00\x00\x00\x00\x00": "0 visits",
		"evald opening book 2 7x6x4 1\n\x00\x00\x00\x00\x01\x00\x00\x80":     "position 1 of 1: the value of a move is -128, want -127 to 127",
		"evald opening book 2 7x6x4 1\n\x00\x40\x00\x00\x01\x00\x00\x00\x00": "a stone is off the board",
		"evald opening book 2 7x6x4 1\n\x00\x01\x00\x01\x01\x00\x00\x00\x00": "1 stone of the side to move, none of the other side",
		"evald opening book 2 7x6x4 1\n\x00\x02\x00\x00\x01\x00\x00\x00\x00": "{2 0}: a stone has nothing below it",
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
	f.Add([]byte("evald opening book 2 7x6x4 1\n\x00\x00\x00\x00\x07\x00\x01\x02\x03\x04\x05\x7f"))
	f.Add([]byte("evald opening book 2 5x4x4 1\n\x00\x01\x00\x00\x07\x81\xff\x00\x01\x7f"))
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
