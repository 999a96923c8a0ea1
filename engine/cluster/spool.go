package cluster

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"slices"

	"github.com/evald/evald/engine/durable"
)

// spooled is a game that the learner has not confirmed.
type spooled struct {
	Generation int             `json:"generation"`
	Settings   string          `json:"settings"`
	Number     int             `json:"number"`
	Game       json.RawMessage `json:"game"`
}

const spoolGames = 20_000

// spool stores a worker's games that the learner has not confirmed, in a file and in memory. If the disk is full, further games are only in
// memory; a kill loses them, and they are played again.
type spool struct {
	disk    durable.FS
	path    string
	most    int // maximum number of games
	log     *slog.Logger
	games   []spooled
	journal *durable.Journal
	lines   int  // number of lines of the journal
	torn    bool // the journal's last line may be torn
}

// openSpool opens a spool with the games of an earlier process.
func openSpool(disk durable.FS, path string, most int, log *slog.Logger) (*spool, error) {
	games, err := durable.ReadJournalIn[spooled](disk, path, "and its game is played again")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	s := &spool{disk: disk, path: path, most: most, log: log, games: games}
	s.begin()
	return s, nil
}

// begin rewrites the file with the games in memory.
func (s *spool) begin() {
	if s.journal != nil {
		_ = s.journal.Close() // games that the old journal lacks are in memory
	}
	var err error
	if s.journal, err = durable.BeginJournalIn(s.disk, s.path, s.games); err != nil {
		s.log.Warn("the spool cannot be written; games are in memory alone until they are confirmed", "error", err)
	}
	s.lines, s.torn = len(s.games), err != nil
}

// full reports whether the worker must pause until games are confirmed.
func (s *spool) full() bool { return len(s.games) >= s.most }

func (s *spool) add(line spooled) {
	s.games = append(s.games, line)
	if s.torn {
		return
	}
	if err := s.journal.Add(line); err != nil {
		s.torn = true
		s.log.Warn("the spool cannot be written; games are in memory alone until they are confirmed", "error", err)
	}
	s.lines++
}

// next returns the first games, all of one generation, up to the maximum of a message.
func (s *spool) next() []spooled {
	n, bytes := 0, 0
	for n < len(s.games) && n < parcelGames && bytes < parcelBytes && s.games[n].Settings == s.games[0].Settings {
		bytes += len(s.games[n].Game)
		n++
	}
	return s.games[:n:n]
}

// forget drops the first n games, because they are confirmed or will be played again.
func (s *spool) forget(n int) {
	s.games = append([]spooled(nil), s.games[n:]...)
	if s.torn || s.lines > 1000+2*len(s.games) || len(s.games) == 0 && s.lines > 100 {
		s.begin()
	}
}

// postpone moves the first n games behind the others.
func (s *spool) postpone(n int) {
	s.games = slices.Concat(s.games[n:], s.games[:n])
}

// size returns the number of games, and the number of these that belong to earlier generations.
func (s *spool) size(generation int) (all, older int) {
	for _, g := range s.games {
		if g.Generation < generation {
			older++
		}
	}
	return len(s.games), older
}

// close closes the file. The file is empty if all games are confirmed.
func (s *spool) close() {
	s.begin()
	if s.journal != nil {
		_ = s.journal.Close()
	}
}
