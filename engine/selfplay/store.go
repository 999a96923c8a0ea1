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

// Store stores games of a run that other processes play, in a directory like that of Run, which Run could resume. The names of the files of
// records and the journal define which games exist. Has, Games, Proved and First are safe for concurrent use and do not wait for the disk;
// only one goroutine at a time may call the other methods, except that several may call Check. A Store must be closed.
type Store struct {
	config  Config
	dir     *durable.Dir
	most    int // maximum games in a file of records
	board   *game.Board
	first   int              // number of the first game of the next file
	games   []*Game          // games of the next file, from first on
	end     int              // number of games of the run
	journal *durable.Journal // contains the games that are in no file
	lines   int              // number of lines of the journal, including games that are in a file by now
	broken  bool             // the journal's last line may be torn
	checked game.Boards      // boards for Check

	// One goroutine writes these fields; others may read them meanwhile.
	mu      sync.Mutex
	next    int // first + len(games)
	waiting map[int]*Game
	proved  int // games added since the store was opened that ended by a proof
}

// OpenStore begins or resumes a directory for games 0 to n-1, as Run does.
func OpenStore(dir string, c Config, n int) (*Store, error) {
	return OpenStoreIn(durable.OS, dir, c, n, ShardGames)
}

// OpenStoreIn is OpenStore in any file system, with at most most games (1 or more) in each new file of records.
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

// open reads the names of the directory's files and its journal, and checks the files.
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
	for _, f := range files { // rejects damaged files
		r, err := record.OpenIn(s.dir, f.Path)
		if err == nil && !r.Sealed() { // this package writes a checksum into each file
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

// Games is the number of games in the store.
func (s *Store) Games() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next + len(s.waiting)
}

// Proved is the number of games added since the store was opened that ended by a proof.
func (s *Store) Proved() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proved
}

// First is the number of the first game that the store lacks. All later games of the store are in memory.
func (s *Store) First() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

// Add stores games. When it returns nil, all of them are durable. It ignores games that the store already has. After an error some games
// may be stored; Add can be called again with the same games, and succeeds once the disk has room. All games must have passed Check.
func (s *Store) Add(games ...*Game) error {
	if s.broken {
		if err := s.openJournal(); err != nil {
			return err
		}
		s.broken = false
	}
	if fresh := s.fresh(games); len(fresh) > 0 {
		s.broken = true
		lines := make([]any, len(fresh))
		for i, g := range fresh {
			lines[i] = g
		}
		if err := s.journal.Add(lines...); err != nil {
			return err
		}
		if err := s.journal.Sync(); err != nil {
			return err
		}
		s.broken = false
		s.lines += len(fresh)
		s.wait(fresh...)
	}
	err := s.drain()
	s.broken = s.journal == nil // the journal could not be rewritten
	return err
}

// fresh returns the games that the store lacks, each once.
func (s *Store) fresh(games []*Game) (fresh []*Game) {
	for _, g := range games {
		if !s.Has(g.Number) && !slices.ContainsFunc(fresh, func(f *Game) bool { return f.Number == g.Number }) {
			fresh = append(fresh, g)
		}
	}
	return fresh
}

// Close stops writing. The next OpenStore finds all added games. Close removes the journal if all its games are in files.
func (s *Store) Close() (err error) {
	if s.journal != nil {
		err = s.journal.Close()
		if len(s.games)+len(s.waiting) == 0 {
			err = errors.Join(err, s.dir.Remove(s.dir.Path(WaitingFile)))
		}
	}
	return errors.Join(err, s.dir.Close())
}
