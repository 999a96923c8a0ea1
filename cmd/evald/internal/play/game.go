// Package play is a board for games against any agent: on a terminal, or line by line without one.
//
// Read the files in this order:
//
//	game.go      Session, the state of one game; level.go: agents with names for people
//	analysis.go  the search and the solver on one position, also for the page of internal/web
//	model.go     the game on a terminal, driven by bubbletea; view.go, board.go: its screen; text.go, hint.go, help.go: its texts
//	plain.go     the game line by line
//	parting.go   what stays on the terminal after a game
package play

import (
	"errors"
	"fmt"
	"slices"

	"github.com/evald/evald/engine/game"
)

// Session is the state of one game: the moves, those taken back, and which sides people play. Sides are 0, which moves
// first, and 1.
type Session struct {
	board  *game.Board
	start  []int   // moves at the start of a new game
	line   []int   // the moves made, then those taken back
	at     int     // how many moves of line are made
	human  [2]bool // by seat
	seat   [2]int  // by side: its seat, 0 or 1
	paused bool    // agents wait
	now    game.Position
	last   int // the bit on which the last stone landed, or -1
}

// Resume returns a session after the first made moves of a line, which must be legal; the other moves count as taken back. A
// new game begins with the empty board. human says for each seat whether a person has it; seat 0 plays side 0 until the
// sides are swapped.
func Resume(b *game.Board, line []int, made int, human [2]bool) *Session {
	s := &Session{board: b, line: slices.Clone(line), human: human, seat: [2]int{0, 1}}
	s.move(made)
	return s
}

// move sets the number of moves made to to.
func (s *Session) move(to int) {
	s.at, s.now, s.last = to, game.Position{}, -1
	for _, a := range s.line[:to] {
		s.last = s.board.Cell(s.now, a).First()
		s.now = s.board.Play(s.now, a)
	}
}

// Board is the board of the game.
func (s *Session) Board() *game.Board { return s.board }

// Position is the position on the board.
func (s *Session) Position() game.Position { return s.now }

// LastCell is the bit on which the last stone landed, or -1.
func (s *Session) LastCell() int { return s.last }

// Result is the result for the side to move: a finished game is a Loss for it, or a Draw.
func (s *Session) Result() game.Result { return s.board.Result(s.now) }

// Moves are the moves made, in order. The slice belongs to the session.
func (s *Session) Moves() []int { return s.line[:s.at] }

// Line is the moves made, then those taken back. The slice belongs to the session.
func (s *Session) Line() []int { return s.line }

// Side is the side to move.
func (s *Session) Side() int { return s.at % 2 }

func (s *Session) over() bool { return s.Result() != game.Ongoing }

// humanToMove reports whether a person plays the side to move.
func (s *Session) humanToMove() bool { return s.human[s.seat[s.Side()]] }

// agentToMove reports whether an agent should think now.
func (s *Session) agentToMove() bool { return !s.humanToMove() && !s.paused && !s.over() }

// Play makes a move for the side to move and forgets those taken back. The error names the legal moves.
func (s *Session) Play(action int) error {
	if s.over() {
		return errors.New("the game is over")
	}
	if !s.board.CanPlay(s.now, action) {
		name := fmt.Sprintf("move %d", action+1)
		if action >= 0 && action < s.board.Actions() {
			name = Name(s.board, action)
		}
		return fmt.Errorf("%s cannot be played; %s", name, s.legal())
	}
	s.line = append(s.line[:s.at], action)
	s.paused = false
	s.move(s.at + 1)
	return nil
}

// Undo takes back moves until a person is to move again: usually the person's move and the reply to it. Between agents it
// takes back one move, and the agents wait. It reports whether there was anything to take back.
func (s *Session) Undo() bool { return s.jump(-1) }

// undoText says what Undo takes back.
func (s *Session) undoText() string {
	if s.human[0] != s.human[1] {
		return "take back your move and the reply"
	}
	return "take back the last move"
}

// Redo repeats moves that were taken back, until a person is to move.
func (s *Session) Redo() bool {
	if s.jump(1) {
		return true
	}
	rest := s.at < len(s.line) // in which no person is to move: go to its end
	s.move(len(s.line))
	return rest
}

// jump steps by 1 or -1 through the line to the next place at which a person is to move, or by one move between agents. If
// there is none, it stays.
func (s *Session) jump(step int) bool {
	agents := !s.human[0] && !s.human[1]
	for at := s.at + step; at >= 0 && at <= len(s.line); at += step {
		if agents || s.human[s.seat[at%2]] {
			s.paused = agents
			s.move(at)
			return true
		}
	}
	return false
}

// Restart begins a new game.
func (s *Session) Restart() {
	s.line = slices.Clone(s.start)
	s.paused = false
	s.move(len(s.start))
}

// Swap exchanges the players' sides.
func (s *Session) Swap() { s.seat[0], s.seat[1] = s.seat[1], s.seat[0] }

// Name returns a move as people write it, a column or, without gravity, a cell: "4", or "a" for the tenth column.
func Name(b *game.Board, action int) string { return game.FormatMoves(b.Rules(), []int{action}) }

// Action is the move that text names, or -1.
func Action(b *game.Board, text string) int {
	for a := range b.Actions() {
		if Name(b, a) == text {
			return a
		}
	}
	return -1
}

// legal lists the legal moves, for people.
func (s *Session) legal() string {
	if s.over() {
		return "the game is over"
	}
	text := "legal moves are"
	for _, a := range s.legalMoves() {
		text += " " + Name(s.board, a)
	}
	return text
}

func (s *Session) legalMoves() (all []int) {
	for a := range s.board.Actions() {
		if s.board.CanPlay(s.now, a) {
			all = append(all, a)
		}
	}
	return all
}
