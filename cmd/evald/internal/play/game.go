// Package play is a board for games against any agent: on a terminal, or line by line without one.
//
// Read the files in this order:
//
//	game.go      Session: a game with its moves, undo and redo
//	level.go     Levels: agents with names for people
//	analysis.go  what a search and the solver know of a position; task.go: work in the background
//	plain.go     a game as a dialogue in lines; text.go: its words
//	model.go     a game on the whole terminal: keys and messages
//	view.go      what the terminal shows; board.go: its board
package play

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/evald/evald/engine/game"
)

// Session is the state of one game: the moves, those taken back, and which sides people play. It has no clock, no agent and
// no screen. Sides are 0, which moves first, and 1.
type Session struct {
	board  *game.Board
	start  []int   // moves at the start of a new game
	line   []int   // the moves made, then those taken back
	at     int     // how many moves of line are made
	human  [2]bool // by seat
	seat   [2]int  // by side: its seat, 0 or 1
	paused bool    // agents wait
	now    game.Position
}

// NewSession begins after the moves of start, which must be legal. human says for each seat whether a person has it; seat 0
// plays side 0 until the sides are swapped.
func NewSession(b *game.Board, start []int, human [2]bool) *Session {
	s := &Session{board: b, start: slices.Clone(start), line: slices.Clone(start), human: human, seat: [2]int{0, 1}}
	s.move(len(start))
	return s
}

// Resume returns a session after the first made moves of a line, which must be legal; the other moves count as taken back. A
// new game begins with the empty board.
func Resume(b *game.Board, line []int, made int, human [2]bool) *Session {
	s := NewSession(b, nil, human)
	s.line = slices.Clone(line)
	s.move(made)
	return s
}

// move sets the number of moves made to to.
func (s *Session) move(to int) {
	s.at, s.now = to, game.Position{}
	for _, a := range s.line[:to] {
		s.now = s.board.Play(s.now, a)
	}
}

// Board is the board of the game.
func (s *Session) Board() *game.Board { return s.board }

// Position is the position on the board.
func (s *Session) Position() game.Position { return s.now }

// Result is the result for the side to move: a finished game is a Loss for it, or a Draw.
func (s *Session) Result() game.Result { return s.board.Result(s.now) }

// Moves are the moves made, in order. The slice belongs to the session.
func (s *Session) Moves() []int { return s.line[:s.at] }

// Line is the moves made, then those taken back. The slice belongs to the session.
func (s *Session) Line() []int { return s.line }

// Side is the side to move.
func (s *Session) Side() int { return s.at % 2 }

// Seat is the seat that plays a side, 0 or 1.
func (s *Session) Seat(side int) int { return s.seat[side] }

// Human reports whether a person plays the side.
func (s *Session) Human(side int) bool { return s.human[s.seat[side]] }

// Paused reports whether agents wait.
func (s *Session) Paused() bool { return s.paused }

// Pause makes agents wait, or continue.
func (s *Session) Pause(wait bool) { s.paused = wait }

// AgentToMove reports whether an agent should think now.
func (s *Session) AgentToMove() bool {
	return !s.Human(s.Side()) && !s.paused && s.Result() == game.Ongoing
}

// Play makes a move for the side to move and forgets those taken back. The error names the legal moves.
func (s *Session) Play(action int) error {
	if s.Result() != game.Ongoing {
		return errors.New("the game is over")
	}
	if !s.board.CanPlay(s.now, action) {
		return fmt.Errorf("%s cannot be played; %s", s.name(action), s.legal())
	}
	s.line = append(s.line[:s.at], action)
	s.paused = false
	s.move(s.at + 1)
	return nil
}

// Undo takes back moves until a person is to move again: usually the person's move and the reply to it. Between agents it
// takes back one move, and the agents wait. It reports whether there was anything to take back.
func (s *Session) Undo() bool {
	return s.jump(func() { s.at-- }, func() bool { return s.at > 0 })
}

// Redo repeats moves that were taken back, until a person is to move.
func (s *Session) Redo() bool {
	done := s.jump(func() { s.at++ }, func() bool { return s.at < len(s.line) })
	if !done && s.at < len(s.line) { // no person is to move in the rest of the line: go to its end
		s.move(len(s.line))
		return true
	}
	return done
}

// jump steps through the line to the next place at which a person is to move, or by one move between agents. If there is
// none, it stays.
func (s *Session) jump(step func(), more func() bool) bool {
	from := s.at
	agents := !s.human[0] && !s.human[1]
	for more() {
		step()
		if agents || s.Human(s.Side()) {
			s.paused = agents
			s.move(s.at)
			return true
		}
	}
	s.at = from
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

// name returns a move as people write it: a column or, without gravity, a cell.
func (s *Session) name(action int) string {
	if action < 0 || action >= s.board.Actions() {
		return fmt.Sprintf("move %d", action+1)
	}
	return Name(s.board, action)
}

// Name returns a move as people write it, such as "4", or "a" for the tenth column.
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
	var names []string
	for a := range s.board.Actions() {
		if s.board.CanPlay(s.now, a) {
			names = append(names, Name(s.board, a))
		}
	}
	if s.Result() != game.Ongoing {
		return "the game is over"
	}
	return "legal moves are " + strings.Join(names, " ")
}
