package selfplay

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/record"
)

// Store keeps the games of a run that others play, in a directory like that of Run, from which Run could go on. It is the
// ledger of the run: which games it has is what the names of the files of records and the journal say. Has, Games, Proved and
// First are safe for concurrent use, and do not wait for the disk; one goroutine at a time may call the others. Close it.
type Store struct {
	config  Config
	dir     *durable.Dir
	most    int // games in a file of records
	board   *game.Board
	first   int              // number of the first game of the file to come
	games   []*Game          // of the file to come, from first on
	end     int              // of the run
	journal *durable.Journal // has the games that are in no file
	lines   int              // of the journal, also of games that have come into a file since
	broken  bool             // the journal's last line may be torn
	checked game.Boards      // of Check

	// One goroutine writes; others may read these meanwhile.
	mu      sync.Mutex
	next    int // first + len(games)
	waiting map[int]*Game
	proved  int // games added since the store was opened that ended by a proof
}

// OpenStore begins or continues a directory for games 0 to n-1, as Run does.
func OpenStore(dir string, c Config, n int) (*Store, error) {
	return OpenStoreIn(durable.OS, dir, c, n, ShardGames)
}

// OpenStoreIn is OpenStore in any file system, with at most a number of games in each new file of records, from 1 on.
func OpenStoreIn(files durable.FS, dir string, c Config, n, most int) (*Store, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	board, err := c.board()
	if err != nil {
		return nil, err
	}
	s := &Store{config: c, board: board, most: most, end: n, waiting: map[int]*Game{}}
	if s.dir, err = durable.OpenDirIn(files, dir); err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.dir.Close())
	}
	return s, nil
}

// open finds the games that the directory has.
func (s *Store) open() error {
	if err := durable.KeepConfigIn(s.dir, s.dir.Path(ConfigFile), s.config); err != nil {
		return err
	}
	files, err := durable.ShardsIn(s.dir, s.dir.Path())
	if err != nil {
		return err
	}
	for _, f := range files {
		if f.First != s.next || f.Games() < 1 {
			return fmt.Errorf("%s: want the games from number %d on: remove the file, or name another directory", f.Path, s.next)
		}
		s.first, s.next = f.Last+1, f.Last+1
	}
	for _, f := range files { // refuses damaged ones
		r, err := record.OpenIn(s.dir, f.Path)
		if err == nil && !r.Sealed() { // this package has written it, with a checksum
			err = fmt.Errorf("records %s: the file is damaged: it has no checksum", f.Path)
		}
		if err != nil {
			return fmt.Errorf("%w: remove it and the files of later games, which are played again, or name another directory", err)
		}
	}
	if err := s.readJournal(); err != nil {
		return err
	}
	if err := s.drain(); err != nil {
		return err
	}
	return s.openJournal()
}

// Has reports whether the store has a game.
func (s *Store) Has(number int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return number < s.next || s.waiting[number] != nil
}

// Games is how many games the store has.
func (s *Store) Games() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next + len(s.waiting)
}

// Proved is how many of the games that were added since the store was opened ended because their result was proved.
func (s *Store) Proved() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proved
}

// First is the first game that the store lacks. All games that it has beyond are in memory.
func (s *Store) First() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

// Add keeps games. If it returns nil, all of them are on the disk, and a power failure loses none. Those that the store had
// already are left out. After an error some may be kept; Add can be called again with the same games, and goes on when there
// is room on the disk again. All games must have passed Check.
func (s *Store) Add(games ...*Game) error {
	if s.broken {
		if err := s.openJournal(); err != nil {
			return err
		}
		s.broken = false
	}
	if fresh := s.fresh(games); len(fresh) > 0 {
		s.broken = true
		for _, g := range fresh {
			if err := s.journal.Add(g); err != nil {
				return err
			}
		}
		if err := s.journal.Sync(); err != nil {
			return err
		}
		s.broken = false
		s.lines += len(fresh)
		s.wait(fresh...)
	}
	err := s.drain()
	s.broken = s.journal == nil // it could not begin anew
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

// Close ends the writing. The next OpenStore finds all games that were added. The journal goes when all its games are in files.
func (s *Store) Close() (err error) {
	if s.journal != nil {
		err = s.journal.Close()
		if len(s.games)+len(s.waiting) == 0 {
			err = errors.Join(err, s.dir.Remove(s.dir.Path(WaitingFile)))
		}
	}
	return errors.Join(err, s.dir.Close())
}
