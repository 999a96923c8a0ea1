package game_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

func TestParseErrors(t *testing.T) {
	board := strings.Repeat("0,", 41)
	for _, c := range []struct{ in, want string }{
		{"", `moves "": is empty; the empty board is "-"`},
		{"3x3x3free", `moves "3x3x3free": is a game without moves; its empty board is "3x3x3free:-"`},
		{"3x3free", `moves "3x3free": move 2 is "x", not one of 1 to 7`},
		{"448", `moves "448": move 3 is "8", not one of 1 to 7`},
		{"4é4", `moves "4é4": move 2 is "é", not one of 1 to 7`},
		{"4444444", `moves "4444444": move 7 goes to "4", which is full`},
		{"12121212", `moves "12121212": move 8 comes after the game was won`},
		{"3x3x3free:551", `moves "551": move 2 goes to "5", which is full`},
		{"1x2x2:111", `moves "111": move 3 comes after the board was full`},
		{"4x4x5:12", `inarow "5": nobody can win in rules "4x4x5": must be at most 4`},
		{"12x9x4:d", `moves "d": move 1 is "d", not one of 1 to 9 and a to c`},
		{"64x1x4:12.65", `moves "12.65": move 2 is "65", not one of 1 to 64 (moves joined by dots)`},
		{"64x1x4:12.", `moves "12.": move 1 is "12", not one of 1 to 64 (moves joined by dots)`},
		{"4,8", `moves "4,8": move 2 is "8", not one of 1 to 7`},
		{"4,,5", `moves "4,,5": move 2 is "", not one of 1 to 7`},
		{"4,5,", `moves "4,5,": move 2 is "5,", not one of 1 to 7`},
		{",", `moves ",": move 1 is ",", not one of 1 to 7`},
		{"44,5", `moves "44,5": move 1 is "44", not one of 1 to 7`},
		{"4,-17", `moves "4,-17": move 2 is "-17", not one of 1 to 7`},
		{"4,+5", `moves "4,+5": move 2 is "+5", not one of 1 to 7`},
		{"12x9x4:13,1", `moves "13,1": move 1 is "13", not one of 1 to 9 and a to c`},
		{"64x1x4:a,1", `moves "a,1": move 1 is "a", not one of 1 to 64 (moves joined by dots)`},
		{"7x6:44", `rules "7x6": want columns x rows x in-a-row, such as 7x6x4 or 3x3x3free`},
		{"7x+6x4:44", `rows "+6": is not a whole number in rules "7x+6x4"`},
		{"0x6x4:44", `columns "0": must be 1 or more`},
		{"7x6x0:44", `inarow "0": must be 1 to 128`},
		{"20x20x4:44", `rules "20x20x4": needs more than 128 bits: (rows + 1) * columns may be at most 128`},
		{"9223372036854775807x1x1:1", `rules "9223372036854775807x1x1": needs more than 128 bits: (rows + 1) * columns may be at most 128`},
		{`{"board":[` + board + `0]}`, `mark "": is missing; it says who is to move, 1 or 2`},
		{`{"board":[` + board + `0],"mark":3}`, `mark "3": must be 1 or 2`},
		{`{"board":[` + board + `3],"mark":1}`, `board[41] "3": must be 0, 1 or 2`},
		{`{"board":[1,` + board[2:] + `0],"mark":1}`, `board[0] "1": floats: the cell below it, 7, is empty; is the board upside down? its first row is the top one`},
		{`{"board":[0,0],"mark":1}`, `board "2 cells": 7x6x4 has 42; rows and columns name another board`},
		{`{"board":"x","mark":1}`, `board "string": must be a list, each element a whole number: the cells row by row from the top left, 0 empty, 1 and 2 the players`},
		{`{"board":[0],"mark":1,"rows":-1}`, `rows "-1": must be 1 or more`},
		{`{"board":[0],"mark":1,"board":[1]}`, `json "{\"board\":[0],\"mark\":1,\"board\":[1]}": key "board" is there twice`},
		{`{"board":`, `json "{\"board\":": unexpected end of JSON input`},
	} {
		var p game.Parser
		s, err := p.Parse(c.in)
		if err == nil {
			t.Errorf("Parse(%q) = %+v, want the error %s", c.in, s, c.want)
		} else if err.Error() != c.want {
			t.Errorf("Parse(%q): error\n %s, want\n %s", c.in, err, c.want)
		}
	}
	e := &game.ParseError{Line: 7, Field: "moves", Value: strings.Repeat("é", 30), Reason: "is odd"}
	if want := `line 7: moves "` + strings.Repeat("é", 20) + `"..: is odd`; e.Error() != want {
		t.Errorf("error %s, want %s", e.Error(), want)
	}
}

// Text writes a position so that Parse reads the same position: as moves if a game leads to it, and
// otherwise as an observation.
func TestText(t *testing.T) {
	r := gametest.Rand(6)
	for _, b := range gametest.Boards() {
		for _, p := range append(gametest.Positions(r, b, 20, true), game.Position{}) {
			text := b.Text(p)
			s, err := new(game.Parser).Parse(text)
			if err != nil || s.Position != p || s.Board.Rules() != b.Rules() || text[0] == '{' {
				t.Errorf("%v: %s is %+v, %v; want moves to %+v", b.Rules(), text, s.Position, err, p)
			}
		}
	}
	b := game.MustBoard(game.Connect4)
	odd := gametest.Must(b.FromKaggle(append(make([]int, 35), 1, 1, 0, 0, 0, 0, 0), 2))(t)
	parser := game.Parser{AnyPosition: true}
	if s, err := parser.Parse(b.Text(odd.Position)); err != nil || s.Position != odd.Position {
		t.Errorf("%s is %+v, %v; want %+v", b.Text(odd.Position), s.Position, err, odd.Position)
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		in, rules string
		plies     int
		mark      int
		result    game.Result
	}{
		{"-", "7x6x4", 0, 1, game.Ongoing},
		{"44554", "7x6x4", 5, 2, game.Ongoing},
		{"1212121", "7x6x4", 7, 2, game.Loss},
		{"4,4,5,5,4", "7x6x4", 5, 2, game.Ongoing},
		{"1,2,1,2,1,2,1", "7x6x4", 7, 2, game.Loss},
		{"12x9x4:12,c,10,a", "12x9x4", 4, 1, game.Ongoing},
		{"64x1x4:12,33", "64x1x4", 2, 1, game.Ongoing},
		{"9x5x4:4455", "9x5x4", 4, 1, game.Ongoing},
		{"12x9x4:ccaa", "12x9x4", 4, 1, game.Ongoing},
		{"3x3x3free:51936", "3x3x3free", 5, 2, game.Ongoing},
		{"3x3x3free:123546879", "3x3x3free", 9, 2, game.Draw},
		{`{"board":[0,0,0,0,0,0,1,2,0],"mark":1,"rows":3,"columns":3,"inarow":3,"step":2,"remainingOverageTime":60}`, "3x3x3", 2, 1, game.Ongoing},
		{`{"board":[0,0,0,0,0,0,1,2,0],"mark":2,"rows":3,"columns":3,"inarow":3,"gravity":null}`, "3x3x3", 2, 2, game.Ongoing},
		{`{"board":[0,0,0,2,0,0,1,1,1],"mark":1,"rows":3,"columns":3,"inarow":3}`, "3x3x3", 4, 1, game.Win},
	} {
		p := game.Parser{AnyPosition: true} // of the last two, which no game reaches, the mark is believed
		s, err := p.Parse(c.in)
		if err != nil {
			t.Errorf("Parse(%q): %v", c.in, err)
			continue
		}
		if s.Board.Rules().String() != c.rules || s.Plies() != c.plies || s.Mark != c.mark || s.Board.Result(s.Position) != c.result {
			t.Errorf("Parse(%q) = %v, %d plies, mark %d, %v; want %+v", c.in, s.Board.Rules(), s.Plies(), s.Mark, s.Board.Result(s.Position), c)
		}
	}
}

// Parse and ParseMoves read moves in two ways, which agree about positions and errors, also of games with a byte too many or changed.
func TestParseAsMoves(t *testing.T) {
	r := gametest.Rand(7)
	var p game.Parser
	for _, board := range gametest.Boards() {
		for range 300 {
			text := "-"
			var actions []int
			for pos := (game.Position{}); len(actions) < board.Cells() && board.Result(pos) == game.Ongoing; {
				if a := r.IntN(board.Actions()); board.CanPlay(pos, a) {
					pos, actions = board.Play(pos, a), append(actions, a)
					text = game.FormatMoves(board.Rules(), actions)
				}
				if r.IntN(board.Cells()) == 0 {
					break
				}
			}
			changed := []byte(text)
			changed[r.IntN(len(changed))] = "1234567890abcXYZ-., \xc3"[r.IntN(21)]
			for _, text := range []string{text, text + "1", text + text, string(changed), text + "," + text, "\xff", ""} {
				want, _, failed := board.ParseMoves(text)
				got, err := p.Parse(board.Rules().String() + ":" + text)
				if got.Position != want || fmt.Sprint(err) != fmt.Sprint(failed) {
					t.Fatalf("%v: Parse(%q) = %v, %v; ParseMoves %v, %v", board.Rules(), text, got.Position, err, want, failed)
				}
			}
		}
	}
}

// Moves between commas are the same moves as those of the shortest form.
func TestParseListed(t *testing.T) {
	r := gametest.Rand(8)
	for _, board := range gametest.Boards() {
		var actions []int
		var listed []string
		for p := (game.Position{}); board.Result(p) == game.Ongoing && len(actions) < board.Cells(); {
			a := board.Action(board.Legal(p).Nth(r.IntN(board.Legal(p).OnesCount())).First())
			p, actions, listed = board.Play(p, a), append(actions, a), append(listed, strconv.Itoa(a+1))
		}
		_, got, err := board.ParseMoves(strings.Join(listed, ","))
		if len(listed) > 1 && (err != nil || !slices.Equal(got, actions)) {
			t.Errorf("%v: %q is read as %v, %v; want %v", board.Rules(), listed, got, err, actions)
		}
	}
}

// Boards that no game reaches are refused with the numbers of stones and the likeliest mistake, unless any position is asked for.
func TestParseUnreached(t *testing.T) {
	const begins = ": no game reaches this"
	for _, c := range []struct{ board, mark, want string }{
		{"1,1,1,1,1,1,1,1,1", "1", `board "3x3x3free": 9 stones of player 1, none of player 2, and player 1 is to move` + begins},
		{"1,1,0,0,0,0,0,0,0", "1", `board "3x3x3free": 2 stones of player 1, none of player 2, and player 1 is to move` + begins},
		{"0,0,0,0,0,0,0,0,0", "2", `mark "2": none of player 1, none of player 2, and player 2 is to move` + begins + "; is mark swapped?"},
		{"0,0,0,0,1,0,0,0,0", "1", `mark "1": 1 stone of player 1, none of player 2, and player 1 is to move` + begins + "; is mark swapped?"},
		{"1,0,0,2,0,0,0,0,0", "2", `mark "2": 1 stone of player 1, 1 stone of player 2, and player 2 is to move` + begins + "; is mark swapped?"},
		{"2,0,0,1,0,2,0,0,0", "2", `board "3x3x3free": 1 stone of player 1, 2 stones of player 2, and player 2 is to move` + begins + "; are 1 and 2 swapped?"},
		{"2,0,0,1,0,2,0,0,0", "1", `board "3x3x3free": 1 stone of player 1, 2 stones of player 2, and player 1 is to move` + begins},
		{"2,2,2,1,1,0,1,0,1", "2", `board "3x3x3free": player 2 is to move and has a line already: the game was over before the last stone`},
		{"1,1,1,2,2,0,2,0,0", "1", `board "3x3x3free": player 1 is to move and has a line already: the game was over before the last stone; are 1 and 2 swapped?`},
		{"1,1,1,2,2,0,2,0,0", "2", `board "3x3x3free": 3 stones of player 1, 3 stones of player 2, and player 2 is to move` + begins},
	} {
		text := `{"board":[` + c.board + `],"mark":` + c.mark + `,"rows":3,"columns":3,"inarow":3,"gravity":false}`
		var p game.Parser
		if _, err := p.Parse(text); err == nil || err.Error() != c.want+" (--any-position or any_position accepts it)" {
			t.Errorf("%s: %v, want %s", text, err, c.want)
		}
		p.AnyPosition = true
		gametest.Must(p.Parse(text))(t)
	}
}

// Every text is refused with a ParseError or read, and what was read can be written and read again.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"-", "44554", "4,4,5,5", "12x9x4:12,c", "9x5x4:4455", "3x3x3free:51936", "64x1x4:12.33", "12x9x4:abc",
		`{"board":[0,0,0,0,0,0,1,2,0],"mark":1,"rows":3,"columns":3,"inarow":3,"gravity":false}`, "{", "::", "x",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := game.Parser{AnyPosition: true}
		s, err := p.Parse(text)
		if err != nil {
			if _, ok := err.(*game.ParseError); !ok || err.Error() == "" {
				t.Fatalf("Parse(%q): error %v of type %T", text, err, err)
			}
			return
		}
		if !s.Own.AndNot(s.All).IsZero() || !s.All.AndNot(s.Board.Full()).IsZero() {
			t.Fatalf("Parse(%q) = %+v, stones off the board", text, s)
		}
		again, err := p.Parse(s.Observation())
		if err != nil || again.Position != s.Position || again.Mark != s.Mark || again.Board.Rules() != s.Board.Rules() {
			t.Fatalf("Parse(%q) = %+v, written and read again %+v, %v", text, s, again, err)
		}
	})
}

func FuzzRules(f *testing.F) {
	for _, s := range []string{"7x6x4", "3x3x3free", "0x0x0", "7x6", "1x127x128"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := game.ParseRules(s)
		if err != nil {
			return
		}
		if again, err := game.ParseRules(r.String()); err != nil || again != r {
			t.Fatalf("ParseRules(%q) = %+v, written and read again %+v, %v", s, r, again, err)
		}
		if _, err := game.NewBoard(r); err != nil {
			t.Fatalf("ParseRules(%q) was valid, but NewBoard: %v", s, err)
		}
	})
}
