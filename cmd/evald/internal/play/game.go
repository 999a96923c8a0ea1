// Package play lets people play games against any agent, on a terminal or line by line without one.
//
// Read the files in this order:
//
//	game.go      Session, the state of one game; level.go: opponents with names
//	analysis.go  the search and the solver on one position, also for the page of internal/web
//	model.go     the game on a terminal, driven by bubbletea; view.go, board.go: its screen; text.go, hint.go, help.go: its texts
//	plain.go     the game line by line
//	parting.go   the summary that stays on the terminal after a game
//	share.go     the networks and books that agents share
//
// A browser's engine has game.go, level.go and analysis.go alone (GOOS=js).
package play

import (
	"errors"
	"fmt"
	"slices"

	"github.com/evald/evald/engine/game"
)

// Session is the state of one game: the moves made, the moves taken back, and whether a person plays each side. Side 0 moves first, side 1
// second. A seat is a player; players keep their seats when they swap sides.
type Session struct {
	board  *game.Board
	start  []int   // moves at the start of a new game
	line   []int   // the moves made, then those taken back
	at     int     // number of moves of line that are made
	human  [2]bool // by seat: whether a person has it
	seat   [2]int  // by side: the seat that plays it, 0 or 1
	paused bool    // agents wait
	now    game.Position
	last   int // bit of the last stone, or -1
}

// Resume returns a session after the first made moves of a line of legal moves; the other moves count as taken back. A new game begins with
// the empty board. human says for each seat whether a person has it; seat 0 plays side 0 until the sides are swapped.
func Resume(b *game.Board, line []int, made int, human [2]bool) *Session {
	s := &Session{board: b, line: slices.Clone(line), human: human, seat: [2]int{0, 1}}
	s.move(made)
	return s
}

// move goes to the position after the first to moves of the line.
func (s *Session) move(to int) {
	s.at, s.now, s.last = to, game.Position{}, -1
	for _, a := range s.line[:to] {
		s.last = s.board.Cell(s.now, a).First()
		s.now = s.board.Play(s.now, a)
	}
}

// Board returns the board of the game.
func (s *Session) Board() *game.Board { return s.board }

// Position returns the current position.
func (s *Session) Position() game.Position { return s.now }

// LastCell returns the bit of the last stone, or -1.
func (s *Session) LastCell() int { return s.last }

// Winning returns the cells of complete lines.
func (s *Session) Winning() (cells game.Bits) {
	if s.Result() != game.Loss {
		return cells
	}
	for _, line := range s.board.Lines() {
		if line.AndNot(s.now.Other()).IsZero() {
			cells = cells.Or(line)
		}
	}
	return cells
}

// Result returns the result for the side to move: Loss or Draw if the game is over, else Ongoing.
func (s *Session) Result() game.Result { return s.board.Result(s.now) }

// Moves returns the moves made. The caller must not change the slice.
func (s *Session) Moves() []int { return s.line[:s.at] }

// Line returns the moves made, followed by the moves taken back. The caller must not change the slice.
func (s *Session) Line() []int { return s.line }

// Side returns the side to move.
func (s *Session) Side() int { return s.at % 2 }

func (s *Session) over() bool { return s.Result() != game.Ongoing }

// humanToMove reports whether a person plays the side to move.
func (s *Session) humanToMove() bool { return s.human[s.seat[s.Side()]] }

// agentToMove reports whether an agent should think now.
func (s *Session) agentToMove() bool { return !s.humanToMove() && !s.paused && !s.over() }

// Play makes a move for the side to move, and forgets the moves taken back. The error lists the legal moves.
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

// Undo takes back moves until a person is to move again: usually the person's move and the reply to it. In a game between agents it takes
// back one move, and pauses the agents. It reports whether there was anything to take back.
func (s *Session) Undo() bool { return s.jump(-1) }

// undoText describes what Undo takes back.
func (s *Session) undoText() string {
	if s.human[0] != s.human[1] {
		return "take back your move and the reply"
	}
	return "take back the last move"
}

// Redo makes moves again that were taken back, until a person is to move.
func (s *Session) Redo() bool {
	if s.jump(1) {
		return true
	}
	rest := s.at < len(s.line) // no person is to move in the rest of the line: go to its end
	s.move(len(s.line))
	return rest
}

// jump goes through the line in steps of 1 or -1 to the next place at which a person is to move, or by one move in a game between agents. If
// there is no such place, it returns false and stays.
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

// Restart begins a new game with the same seats.
func (s *Session) Restart() {
	s.line = slices.Clone(s.start)
	s.paused = false
	s.move(len(s.start))
}

// Swap exchanges the players' sides.
func (s *Session) Swap() { s.seat[0], s.seat[1] = s.seat[1], s.seat[0] }

// Name returns the name of a move, a column or, without gravity, a cell: "4", or "a" for the tenth column.
func Name(b *game.Board, action int) string { return game.FormatMoves(b.Rules(), []int{action}) }

// Action returns the move that text names, or -1.
func Action(b *game.Board, text string) int {
	for a := range b.Actions() {
		if Name(b, a) == text {
			return a
		}
	}
	return -1
}

// legal returns a text that lists the legal moves.
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
