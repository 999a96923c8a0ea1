package selfplay

import (
	"errors"
	"fmt"
	"slices"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/record"
)

// Store keeps the games of a run that others play, in a directory like that of Run, from which Run could go on. It is the
// ledger of the run: which games it has is what the names of the files of records and the journal say. Has, Games, Rows and
// First are safe for concurrent use, and do not wait for the disk; one goroutine at a time may call the others. Close it.
type Store struct {
	c      Config
	dir    *durable.Dir
	shards *shards
	broken bool // the journal's last line may be torn
	check  record.Checker
}

// OpenStore begins or continues a directory for games 0 to n-1, as Run does.
func OpenStore(dir string, c Config, n int) (s *Store, err error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s = &Store{c: c}
	if s.dir, err = durable.OpenDir(dir); err != nil {
		return nil, err
	}
	if err = durable.KeepConfig(s.dir.Path(ConfigFile), c); err == nil {
		s.shards, err = openShards(s.dir, c, n)
	}
	if err != nil {
		return nil, errors.Join(err, s.dir.Close())
	}
	return s, nil
}

// Has reports whether the store has a game.
func (s *Store) Has(number int) bool {
	s.shards.mu.Lock()
	defer s.shards.mu.Unlock()
	return number < s.shards.next || s.shards.waiting[number] != nil
}

// Games is how many games the store has.
func (s *Store) Games() int {
	s.shards.mu.Lock()
	defer s.shards.mu.Unlock()
	return s.shards.next + len(s.shards.waiting)
}

// Rows is how many records were written to files since the store was opened.
func (s *Store) Rows() int64 {
	s.shards.mu.Lock()
	defer s.shards.mu.Unlock()
	return s.shards.rows
}

// First is the first game that the store lacks. All games that it has beyond are in memory.
func (s *Store) First() int {
	s.shards.mu.Lock()
	defer s.shards.mu.Unlock()
	return s.shards.next
}

// Add keeps games. If it returns nil, all of them are on the disk, and a power failure loses none. Those that the store had
// already are left out. After an error some may be kept; Add can be called again with the same games, and goes on when there
// is room on the disk again. All games must have passed Check.
func (s *Store) Add(games ...*Game) error {
	if s.broken {
		if err := s.shards.openJournal(); err != nil {
			return err
		}
		s.broken = false
	}
	if fresh := s.fresh(games); len(fresh) > 0 {
		s.broken = true
		for _, g := range fresh {
			if err := s.shards.journal.Add(g); err != nil {
				return err
			}
		}
		if err := s.shards.journal.Sync(); err != nil {
			return err
		}
		s.broken = false
		s.shards.lines += len(fresh)
		s.shards.wait(fresh...)
	}
	err := s.shards.drain()
	s.broken = s.shards.journal == nil // it could not begin anew
	return err
}

// fresh are the games that the store lacks, each once.
func (s *Store) fresh(games []*Game) (fresh []*Game) {
	for _, g := range games {
		if !s.Has(g.Number) && !slices.ContainsFunc(fresh, func(f *Game) bool { return f.Number == g.Number }) {
			fresh = append(fresh, g)
		}
	}
	return fresh
}

// Check returns an error that says why a game cannot be one of this run's, or nil. It looks at each position, move, visit and
// value, but does not play the game again.
func (s *Store) Check(g *Game) error {
	if err := s.shards.check(g, s.c.Resign > 0, &s.check); err != nil {
		return fmt.Errorf("game %d: %w", g.Number, err)
	}
	return nil
}

// check is Check; resign says whether a game can be given up.
func (s *shards) check(g *Game, resign bool, c *record.Checker) error {
	if g.Number < 0 || g.Number >= s.end {
		return fmt.Errorf("the run has games 0 to %d", s.end-1)
	}
	if len(g.Plies) == 0 || len(g.Plies) > s.board.Cells() || g.Result < -1 || g.Result > 1 {
		return fmt.Errorf("%d positions and result %d cannot be", len(g.Plies), g.Result)
	}
	for i := range len(g.Plies) + 1 {
		p := g.Last
		if i < len(g.Plies) {
			p = g.Plies[i].Position
		}
		if err := s.board.Check(p, game.InTurn); err != nil {
			return fmt.Errorf("position %d: %w", i+1, err)
		}
		if i == 0 {
			continue
		}
		before := g.Plies[i-1].Position
		move := p.All.AndNot(before.All)
		gaveUp := resign && i == len(g.Plies) && p == before && g.Result != 0
		if !gaveUp && (move.OnesCount() != 1 || p != s.board.Play(before, s.board.Action(move.First()))) {
			return fmt.Errorf("position %d does not follow from the one before", i+1)
		}
	}
	last := g.Plies[len(g.Plies)-1].Position
	if result := s.board.Result(g.Last); g.Last != last && (result == game.Ongoing || outcome(int8(result.Value()), g.Last) != g.Result) {
		return fmt.Errorf("result %d, but the last position is %v for the side to move", g.Result, result)
	}
	for _, r := range s.records(g) {
		if err := c.Check(&r); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the writing. The next OpenStore finds all games that were added.
func (s *Store) Close() error {
	return errors.Join(s.shards.close(), s.dir.Close())
}
