package selfplay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/record"
)

// Progress of a run.
type Progress struct {
	Games, All int // games stored, and all games of the run
	Played     int // games finished since the program started
	Proved     int // of these, games that ended because their result was proved
	Elapsed    time.Duration
}

// Share returns the text of the share of played games that ended by a proof; it is empty if none can.
func (p Progress) Share(c Config) string {
	if c.Exact == 0 || p.Played == 0 {
		return ""
	}
	return fmt.Sprintf(", %.1f%% ended by proof", 100*float64(p.Proved)/float64(p.Played))
}

// Batch is the games of one generation of a learning run, for machines that play them elsewhere. A run on several boards has a batch for
// each, one after the other. A continuous run may have several series in a generation, each with a batch for each board.
type Batch struct {
	Generation int // unique number of the batch: the generation, or a number from learn.Run if there are several boards or series
	Config     Config
	Dir        string // folder of the records
	Games      int
	Network    string         // file of the network that plays; "" if the heuristic Config.Network plays
	Report     func(Progress) // nil, or called after games were stored
}

// ShardGames is the maximum number of games in a file of records, unless the caller of OpenStoreIn chooses another one.
const ShardGames = 500

// ConfigFile is the name of the configuration in each directory of a run.
const ConfigFile = "selfplay.json"

// WaitingFile is the journal in a directory of records. It contains the finished games that are in no file of records yet.
const WaitingFile = "waiting.jsonl"

// Run plays games 0 to n-1 and stores them in a directory. games-000000-000499.parquet contains the records of games 0 to 499 in order, and
// so on; files appear when they are complete. selfplay.json contains the configuration. waiting.jsonl contains the finished games that are
// in no file yet, each with its checksum, so that a kill loses only unfinished games. If the directory exists, the run resumes after all
// checksums are compared; a different configuration is an error. report, if not nil, is called after each finished game.
func Run(ctx context.Context, e *eval.Evaluator, c Config, dir string, n int, report func(Progress)) error {
	s, err := OpenStore(dir, c, n)
	if err != nil {
		return err
	}
	if s.next >= n {
		return s.Close()
	}
	have := map[int]bool{}
	for number := range s.waiting {
		have[number] = true
	}
	start, played := time.Now(), 0
	err = Play(ctx, e, c, s.next, n-s.next, have, func(g *Game) error {
		played++
		err := s.add(g)
		if report != nil && err == nil {
			report(Progress{Games: s.Games(), All: n, Played: played, Proved: s.Proved(), Elapsed: time.Since(start)})
		}
		return err
	})
	return errors.Join(err, s.Close())
}

// readJournal reads the games that are in no file of records yet.
func (s *Store) readJournal() error {
	games, err := durable.ReadJournalIn[Game](s.dir, s.dir.Path(WaitingFile), "and its game is played again")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, g := range games {
		if g.Number >= s.next && g.Number < s.end {
			s.waiting[g.Number] = &g
		}
	}
	return nil
}

// openJournal rewrites the journal with the games that are in no file yet. All other games are in durable files: this process has committed
// them, or found them when it opened the directory.
func (s *Store) openJournal() (err error) {
	if s.journal != nil {
		if err := s.journal.Close(); err != nil {
			return err
		}
		s.journal = nil
	}
	games := slices.Clone(s.games)
	for _, number := range slices.Sorted(maps.Keys(s.waiting)) {
		games = append(games, s.waiting[number])
	}
	s.lines = len(games)
	s.journal, err = durable.BeginJournalIn(s.dir, s.dir.Path(WaitingFile), games)
	return err
}

// add stores a finished game: at once in the journal, and later in a file of records.
func (s *Store) add(g *Game) error {
	if err := s.journal.Add(g); err != nil {
		return err
	}
	s.lines++
	s.wait(g)
	return s.drain()
}

// drain moves games into files in the order of their numbers. After an error it can be called again.
func (s *Store) drain() error {
	for {
		if len(s.games) == s.most || len(s.games) > 0 && s.next == s.end {
			if err := s.write(); err != nil {
				return err
			}
		}
		g, ok := s.waiting[s.next]
		if !ok {
			return nil
		}
		s.games = append(s.games, g)
		s.mu.Lock()
		delete(s.waiting, s.next)
		s.next++
		s.mu.Unlock()
	}
}

// wait stores games until all earlier ones exist.
func (s *Store) wait(games ...*Game) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range games {
		s.waiting[g.Number] = g
		if g.Proved() {
			s.proved++
		}
	}
}

// write writes the next file of records. It rewrites the journal if most of the journal's games are in files.
func (s *Store) write() error {
	w, err := record.CreateIn(s.dir, s.dir.Path(durable.ShardName(s.first, s.next-1)), s.config.Policy)
	if err != nil {
		return err
	}
	for _, g := range s.games {
		for _, r := range s.records(g) {
			if err := w.Write(&r); err != nil {
				w.Abort()
				return err
			}
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	s.first, s.games = s.next, nil
	if s.journal == nil || s.lines < s.most+2*len(s.waiting) {
		return nil
	}
	return s.openJournal()
}

// records returns a game's records: one for each position that was searched or proved, and one for the last position if the game was over
// there.
func (s *Store) records(g *Game) []record.Record {
	rules := s.board.Rules()
	var all []record.Record
	for i, p := range g.Plies {
		next := g.Last
		if i+1 < len(g.Plies) {
			next = g.Plies[i+1].Position
		}
		all = append(all, record.Record{
			Rules: rules, Position: p.Position, Visits: p.Visits, Q: p.Q, Z: outcome(g.Result, p.Position),
			GameOver: game.NotOver, Ply: p.Position.Plies(), Source: p.Source, Network: s.config.Network, Weight: 1,
			Game: int64(g.Number), Move: s.move(p.Position, next), Policy: p.Policy,
		})
	}
	if over := s.board.Result(g.Last).GameOver(); over != game.NotOver {
		z := outcome(g.Result, g.Last)
		all = append(all, record.Record{
			Rules: rules, Position: g.Last, Q: float32(z), Z: z, GameOver: over, Ply: g.Last.Plies(), Source: eval.Terminal,
			Network: s.config.Network, Weight: 1, Game: int64(g.Number),
		})
	}
	return all
}

// move returns the move from a position to the next, counted from 1. It returns 0 if they are equal, because the game was resigned or
// proved.
func (s *Store) move(p, next game.Position) uint8 {
	stone := next.All.AndNot(p.All)
	if stone.IsZero() {
		return 0
	}
	return uint8(1 + s.board.Action(stone.First()))
}
