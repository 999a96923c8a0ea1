package game_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// playBoth plays the bytes of script on the bitboards and on the array board, and compares them after every move.
func playBoth(t *testing.T, r game.Rules, script []byte) {
	t.Helper()
	b, err := game.NewBoard(r)
	if err != nil {
		t.Fatalf("%v: %v", r, err)
	}
	naive := gametest.NewNaive(r)
	var p game.Position
	var actions []int
	for _, choice := range script {
		compare(t, b, p, naive)
		legal := naive.Legal()
		if len(legal) == 0 || b.Result(p) != game.Ongoing {
			break
		}
		a := legal[int(choice)%len(legal)]
		cell := b.Cell(p, a)
		p = b.Play(p, a)
		if b.Action(cell.First()) != a {
			t.Fatalf("%v: action of cell %d is %d, want %d", r, cell.First(), b.Action(cell.First()), a)
		}
		naive.Play(a)
		actions = append(actions, a)
	}
	compare(t, b, p, naive)
	roundTrip(t, b, p, actions)
}

func compare(t *testing.T, b *game.Board, p game.Position, n *gametest.Naive) {
	t.Helper()
	if want := n.Position(b); p != want {
		t.Fatalf("%v: position %+v, want %+v", n.Rules, p, want)
	}
	mover := n.Mover()
	if p.Plies() != n.Plies || p.Mover() != mover {
		t.Fatalf("%v: plies %d mover %d, want %d %d", n.Rules, p.Plies(), p.Mover(), n.Plies, mover)
	}
	want := game.Ongoing
	legal := n.Legal()
	switch {
	case n.Won(3 - mover):
		want = game.Loss
	case n.Won(mover):
		want = game.Win
	case len(legal) == 0:
		want = game.Draw
	}
	if got := b.Result(p); got != want {
		t.Fatalf("%v: result %v, want %v for %v", n.Rules, got, want, n.Cell)
	}
	can := 0
	for a := -1; a <= b.Actions(); a++ {
		if b.CanPlay(p, a) {
			if can >= len(legal) || legal[can] != a {
				t.Fatalf("%v: action %d is legal, want %v", n.Rules, a, legal)
			}
			if !b.Cell(p, a).AndNot(b.Legal(p)).IsZero() {
				t.Fatalf("%v: landing cell of %d is not in Legal", n.Rules, a)
			}
			can++
		}
	}
	if can != len(legal) || b.Legal(p).OnesCount() != len(legal) {
		t.Fatalf("%v: %d legal actions, want %d", n.Rules, can, len(legal))
	}
	if extra := b.Wins(p).Or(b.Safe(p)).AndNot(b.Legal(p)); !extra.IsZero() {
		t.Fatalf("%v: winning or safe cells %v that are not legal", n.Rules, extra)
	}
	m := b.Mirror(p)
	if want := n.Mirror().Position(b); m != want {
		t.Fatalf("%v: mirror %+v, want %+v", n.Rules, m, want)
	}
	if b.Mirror(m) != p {
		t.Fatalf("%v: mirror twice is not the position", n.Rules)
	}
	images := n.Images()
	if len(images) != b.Symmetries() {
		t.Fatalf("%v: %d symmetries, want %d", n.Rules, b.Symmetries(), len(images))
	}
	for s, image := range images {
		if got, want := b.Image(p, s), image.Position(b); got != want {
			t.Fatalf("%v: image %d is %+v, want %+v", n.Rules, s, got, want)
		}
		for _, a := range legal {
			if got, want := b.Play(b.Image(p, s), b.ImageAction(a, s)), b.Image(b.Play(p, a), s); got != want {
				t.Fatalf("%v: action %d under symmetry %d leads to %+v, want %+v", n.Rules, a, s, got, want)
			}
		}
	}
	c, _ := b.Canonical(p)
	if c2, _ := b.Canonical(m); c != c2 || c != p && c != m {
		t.Fatalf("%v: canonical forms %+v and %+v differ", n.Rules, c, c2)
	}
	for _, a := range legal {
		if b.Play(m, b.MirrorAction(a)) != b.Mirror(b.Play(p, a)) {
			t.Fatalf("%v: mirrored action of %d is wrong", n.Rules, a)
		}
		if wins, want := !b.Wins(p).And(b.Cell(p, a)).IsZero(), b.Won(b.Play(p, a).Other()); wins != want {
			t.Fatalf("%v: action %d wins: %v, want %v", n.Rules, a, wins, want)
		}
		if safe, want := !b.Safe(p).And(b.Cell(p, a)).IsZero(), b.Wins(b.Play(p, a)).IsZero(); safe != want {
			t.Fatalf("%v: after %v action %d is safe: %v, want %v", n.Rules, p, a, safe, want)
		}
	}
}

// roundTrip writes the game and its last position in every notation and reads them back.
func roundTrip(t *testing.T, b *game.Board, p game.Position, actions []int) {
	t.Helper()
	var parser game.Parser
	s, err := parser.Parse(game.FormatNotation(b.Rules(), actions))
	if r := b.Rules(); r.InARow > max(r.Rows, r.Columns) { // only Kaggle's referee may name such a game
		if err == nil {
			t.Fatalf("%v: read although nobody can win", r)
		}
		s, err = game.State{Board: b, Position: p, Mark: p.Mover()}, nil
	}
	if err != nil {
		t.Fatal(err)
	}
	if s.Position != p || s.Board.Rules() != b.Rules() || s.Mark != p.Mover() {
		t.Fatalf("%v: moves %v came back as %+v", b.Rules(), actions, s)
	}
	_, back, err := b.ParseMoves(game.FormatMoves(b.Rules(), actions))
	if err != nil || fmt.Sprint(back) != fmt.Sprint(actions) {
		t.Fatalf("%v: moves %v came back as %v, %v", b.Rules(), actions, back, err)
	}
	o, err := parser.Parse(s.Observation())
	if err != nil || o.Position != p || o.Mark != s.Mark || o.Board.Rules() != b.Rules() {
		t.Fatalf("%v: observation %s came back as %+v, %v", b.Rules(), s.Observation(), o, err)
	}
}

// script is random choices of moves.
func script(r *rand.Rand) []byte {
	script := make([]byte, 128)
	for i := range script {
		script[i] = byte(r.Uint32())
	}
	return script
}

func TestAgainstArrayBoard(t *testing.T) {
	r := gametest.Rand(1)
	for columns := 1; columns <= 12; columns++ {
		for rows := 1; rows <= 9; rows++ {
			for _, gravity := range []bool{true, false} {
				for _, inARow := range []int{1, 2, 3, 4, 5, 7, 8, 13} {
					if inARow > max(rows, columns)+3 && !gametest.Soak() {
						break // nor does any longer row fit
					}
					playBoth(t, game.Rules{Rows: rows, Columns: columns, InARow: inARow, Gravity: gravity}, script(r))
				}
			}
		}
	}
	for _, rules := range []game.Rules{ // the corners of what 128 bits hold
		{Rows: 127, Columns: 1, InARow: 4, Gravity: true},
		{Rows: 127, Columns: 1, InARow: 100, Gravity: false},
		{Rows: 63, Columns: 2, InARow: 4, Gravity: true},
		{Rows: 62, Columns: 1, InARow: 9, Gravity: true},
		{Rows: 62, Columns: 1, InARow: 4, Gravity: true},
		{Rows: 31, Columns: 2, InARow: 4, Gravity: true},
		{Rows: 20, Columns: 3, InARow: 4, Gravity: false},
		{Rows: 15, Columns: 4, InARow: 4, Gravity: true},
		{Rows: 63, Columns: 1, InARow: 70, Gravity: true},
		{Rows: 1, Columns: 64, InARow: 3, Gravity: true},
		{Rows: 1, Columns: 64, InARow: 33, Gravity: false},
		{Rows: 1, Columns: 32, InARow: 3, Gravity: true},
		{Rows: 15, Columns: 8, InARow: 6, Gravity: false},
	} {
		for range 20 {
			playBoth(t, rules, script(r))
		}
	}
}

func FuzzAgainstArrayBoard(f *testing.F) {
	f.Add(uint8(7), uint8(6), uint8(4), true, []byte("\x00\x01\x02\x03\x04"))
	f.Add(uint8(3), uint8(3), uint8(3), false, []byte("\x08\x07\x06\x05\x04"))
	f.Add(uint8(12), uint8(9), uint8(5), true, []byte("abcdefghijklmnop"))
	f.Fuzz(func(t *testing.T, columns, rows, inARow uint8, gravity bool, script []byte) {
		playBoth(t, game.Rules{
			Columns: 3 + int(columns)%10, Rows: 3 + int(rows)%7, InARow: 1 + int(inARow)%9, Gravity: gravity,
		}, script)
	})
}

func TestLines(t *testing.T) {
	if n := len(game.MustBoard(game.Connect4).Lines()); n != 69 {
		t.Errorf("%d lines on 7x6x4, want 69", n)
	}
	r := gametest.Rand(2)
	for _, b := range gametest.Boards() {
		lines := b.Lines()
		for range 2000 {
			// Random stones, dense enough that lines are common.
			s := game.Bits{Lo: r.Uint64() | r.Uint64(), Hi: r.Uint64() | r.Uint64()}.And(b.Full())
			want := false
			for _, line := range lines {
				want = want || line.AndNot(s).IsZero()
			}
			if got := b.Won(s); got != want {
				t.Fatalf("%v: Won(%+v) = %v, want %v", b.Rules(), s, got, want)
			}
		}
	}
}

// perft counts the sequences of exactly depth moves from p, and how many of them end with a winning move. Sequences in which
// the game ends earlier do not count.
func perft(b *game.Board, p game.Position, depth int) (sequences, won uint64) {
	wins := b.Wins(p)
	if depth == 1 {
		return uint64(b.Legal(p).OnesCount()), uint64(wins.OnesCount())
	}
	for l := b.Legal(p).AndNot(wins); !l.IsZero(); l = l.WithoutFirst() {
		s, w := perft(b, b.PlayCell(p, l.LowBit()), depth-1)
		sequences, won = sequences+s, won+w
	}
	return sequences, won
}

func TestPerft(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	for _, line := range gametest.DataLines(t, "perft_7x6x4.txt") {
		var depth int
		var sequences, won uint64
		if _, err := fmt.Sscan(line, &depth, &sequences, &won); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if s, w := perft(b, game.Position{}, depth); s != sequences || w != won {
			t.Errorf("perft %d = %d, %d won, want %d, %d", depth, s, w, sequences, won)
		}
	}
}

// Published counts: of Connect Four for example in John Tromp's and Pascal Pons' pages.
func TestPerftPublished(t *testing.T) {
	if s, _ := perft(game.MustBoard(game.Connect4), game.Position{}, 9); s != 39394572 {
		t.Errorf("perft 9 of Connect Four = %d, want 39394572", s)
	}
	b := game.MustBoard(game.TicTacToe)
	var games, wonBefore uint64
	for depth := 1; depth <= 9; depth++ {
		s, won := perft(b, game.Position{}, depth)
		games += won
		if depth == 9 {
			games += s - won
		}
		wonBefore = won
	}
	if games != 255168 || wonBefore != 81792 {
		t.Errorf("%d games (%d won on the last move), want 255168 (81792)", games, wonBefore)
	}
}

func TestHash(t *testing.T) {
	r := gametest.Rand(4)
	for _, b := range gametest.Boards() {
		seen := map[uint64]game.Position{}
		var set [64]int
		positions := gametest.Positions(r, b, 5000, false)
		for _, p := range positions {
			h := p.Hash()
			if q, ok := seen[h]; ok && q != p {
				t.Fatalf("%v: %+v and %+v share a hash", b.Rules(), p, q)
			}
			if _, ok := seen[h]; !ok {
				for i := range set {
					set[i] += int(h >> i & 1)
				}
			}
			seen[h] = p
		}
		if len(seen) < 1000 {
			continue
		}
		for i, n := range set {
			if share := float64(n) / float64(len(seen)); share < 0.42 || share > 0.58 {
				t.Errorf("%v: bit %d of the hash is set in %.3f of positions", b.Rules(), i, share)
			}
		}
	}
}

func BenchmarkBoard(b *testing.B) {
	for _, rules := range []game.Rules{
		game.Connect4,
		{Rows: 6, Columns: 7, InARow: 5, Gravity: true},
		{Rows: 5, Columns: 9, InARow: 4, Gravity: true},
		{Rows: 10, Columns: 10, InARow: 4, Gravity: true},
	} {
		board := game.MustBoard(rules)
		positions := gametest.Positions(gametest.Rand(5), board, 1024, true)
		for _, c := range []struct {
			name string
			f    func(i int)
		}{
			{"won", func(i int) { board.Won(positions[i].Own) }},
			{"play", func(i int) { positions[i].Own = board.Play(positions[i], i%board.Actions()).Other() }},
			{"canonical", func(i int) { board.Canonical(positions[i]) }},
			{"outlook", func(i int) { board.Outlook(positions[i]) }},
			{"check", func(i int) { _ = board.Check(positions[i], game.InTurn) }},
		} {
			b.Run(rules.String()+"/"+c.name, func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					c.f(i & 1023)
				}
			})
		}
	}
}

// The gameover codes are in files and in answers of the service: they do not change.
func TestGameOverCodes(t *testing.T) {
	for _, test := range []struct {
		result game.Result
		code   uint8
		wdl    [3]float32
		value  float32
	}{
		{game.Ongoing, 0, [3]float32{}, 0},
		{game.Win, 1, [3]float32{1, 0, 0}, 1},
		{game.Loss, 2, [3]float32{0, 0, 1}, -1},
		{game.Draw, 3, [3]float32{0, 1, 0}, 0},
	} {
		if got := test.result.GameOver(); got != test.code || got >= game.GameOvers {
			t.Errorf("%v: gameover code %d, want %d", test.result, got, test.code)
		}
		if got := test.result.WDL(); got != test.wdl {
			t.Errorf("%v: WDL %v, want %v", test.result, got, test.wdl)
		}
		if got := test.result.Value(); got != test.value || test.result.Flip().Value() != -test.value {
			t.Errorf("%v: value %v, of the other side %v", test.result, got, test.result.Flip().Value())
		}
	}
}

// On every board that there is, ColumnRow undoes Index and FlatIndex undoes Flat; no two cells share a number, and all
// numbers are those of cells.
func TestCellNumbers(t *testing.T) {
	boards := 0
	for rows := 1; rows < game.MaxBits; rows++ {
		for columns := 1; (rows+1)*columns <= game.MaxBits; columns++ {
			b := game.MustBoard(game.Rules{Rows: rows, Columns: columns, InARow: 4, Gravity: columns%2 == 0})
			var cells game.Bits
			flat := 0
			for row := rows - 1; row >= 0; row-- {
				for column := range columns {
					i := b.Index(column, row)
					if c, r := b.ColumnRow(i); c != column || r != row {
						t.Fatalf("%v: bit %d is at column %d, row %d; want %d, %d", b.Rules(), i, c, r, column, row)
					}
					if b.Flat(i) != flat || b.FlatIndex(flat) != i {
						t.Fatalf("%v: bit %d is cell %d, whose bit is %d; want cell %d", b.Rules(), i, b.Flat(i), b.FlatIndex(flat), flat)
					}
					if cells.Has(i) {
						t.Fatalf("%v: bit %d is two cells", b.Rules(), i)
					}
					cells = cells.Or(game.Bits{Lo: 1}.Shl(uint(i)))
					flat++
				}
			}
			if cells != b.Full() {
				t.Fatalf("%v: bits %x are cells, want %x", b.Rules(), cells, b.Full())
			}
			boards++
		}
	}
	if boards < 400 {
		t.Errorf("only %d boards", boards)
	}
}

// outlook is Board.Outlook written for clarity alone: it makes moves and looks at results.
func outlook(b *game.Board, p game.Position) game.Outlook {
	if r := b.Result(p); r != game.Ongoing {
		return game.Outlook{Result: r, Next: p}
	}
	wins := func(p game.Position) (cells game.Bits) {
		for a := range b.Actions() {
			if b.CanPlay(p, a) && b.Result(b.Play(p, a)) == game.Loss {
				cells = cells.Or(b.Cell(p, a))
			}
		}
		return cells
	}
	if w := wins(p); !w.IsZero() {
		return game.Outlook{Result: game.Win, Moves: w, Next: p}
	}
	var keeps game.Bits
	for a := range b.Actions() {
		if b.CanPlay(p, a) && wins(b.Play(p, a)).IsZero() {
			keeps = keeps.Or(b.Cell(p, a))
		}
	}
	switch keeps.OnesCount() {
	case 0:
		return game.Outlook{Result: game.Loss, Moves: b.Legal(p), Next: p}
	case 1:
	default:
		return game.Outlook{Moves: keeps, Next: p}
	}
	after := b.PlayCell(p, keeps)
	if b.Result(after) == game.Draw {
		return game.Outlook{Result: game.Draw, Moves: keeps, Next: after, Plies: 1}
	}
	o := outlook(b, after)
	o.Moves, o.Plies = keeps, o.Plies+1
	o.Result = o.Result.Flip()
	return o
}

func TestOutlook(t *testing.T) {
	r := gametest.Rand(18)
	for _, b := range gametest.Boards() {
		seen, over := map[game.Result]int{}, map[game.Result]int{}
		forced := 0
		positions := gametest.Positions(r, b, 3000, true)
		for _, p := range gametest.Positions(r, b, 1000, false) { // and some with a line of the side to move
			positions = append(positions, p, game.Position{Own: p.Other(), All: p.All}, game.Position{Own: p.All, All: p.All})
		}
		all := make([]game.Outlook, len(positions)+1)
		for i := range all {
			all[i] = game.Outlook{Result: game.Win, Moves: b.Full(), Next: game.Position{Own: b.Full()}, Plies: 3}
		}
		b.Outlooks(all, positions)
		if last := all[len(positions)]; last.Plies != 3 {
			t.Errorf("%v: Outlooks writes beyond its positions: %+v", b.Rules(), last)
		}
		for i, p := range positions {
			got, want := b.Outlook(p), outlook(b, p)
			if got != want || all[i] != want {
				t.Fatalf("%v: %+v: outlook %+v, among others %+v, want %+v", b.Rules(), p, got, all[i], want)
			}
			if got.Moves.IsZero() {
				over[got.Result]++
				continue
			}
			seen[got.Result]++
			if got.Plies > 0 {
				forced++
			}
		}
		if seen[game.Win] < 10 || seen[game.Ongoing] < 10 || forced < 10 || over[game.Win] < 10 || over[game.Loss] < 10 {
			t.Errorf("%v: results %v, %d forced, over %v: too few to tell", b.Rules(), seen, forced, over)
		}
	}
}

// CompletesStraight is Completes by the lines of one column or one row alone.
func TestCompletesStraight(t *testing.T) {
	r := gametest.Rand(12)
	for _, b := range gametest.Boards() {
		var straight []game.Bits
		for _, line := range b.Lines() {
			first, row := b.ColumnRow(line.First())
			second, nextRow := b.ColumnRow(line.WithoutFirst().First())
			if first == second || row == nextRow {
				straight = append(straight, line)
			}
		}
		for range 500 {
			s := game.Bits{Lo: r.Uint64() | r.Uint64(), Hi: r.Uint64() | r.Uint64()}.And(b.Full())
			var want game.Bits
			for _, line := range straight {
				for cells := line; !cells.IsZero(); cells = cells.WithoutFirst() {
					if cell := cells.LowBit(); line.AndNot(cell).AndNot(s).IsZero() {
						want = want.Or(cell)
					}
				}
			}
			if got := b.CompletesStraight(s).And(b.Full()); got != want {
				t.Fatalf("%v: CompletesStraight(%+v) = %+v, want %+v", b.Rules(), s, got, want)
			}
		}
	}
}

// Moves from the middle outwards, on boards with and without gravity; of two as far from the middle the left one is first.
func TestFromCentre(t *testing.T) {
	for rules, want := range map[string][]int{
		"7x6x4":     {3, 2, 4, 1, 5, 0, 6},
		"4x4x4":     {1, 2, 0, 3},
		"3x3x3free": {1, 4, 7, 0, 2, 3, 5, 6, 8},
	} {
		r, err := game.ParseRules(rules)
		if got := game.MustBoard(r).FromCentre(); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", rules, got, want)
		}
	}
}
