package arena

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/evald/evald/engine/durable"
)

// Settings are common to all games of a record. A match with other settings has another record.
type Settings struct {
	Rules    string   `json:"rules"`
	Players  []string `json:"players"` // in the order of the match
	Seed     uint64   `json:"seed"`
	Openings string   `json:"openings"` // where they come from, in words; each game has its own moves
}

// Record is the file of a match. During the match, finished games are appended to a journal beside it, FILE.part: a line with the settings,
// then a line per game. Close writes all games to FILE as Parquet, with a checksum and with the settings as metadata under "evald.match",
// and removes the journal. The games of a record are those of FILE and of its journal.
type Record struct {
	path     string
	settings Settings
	games    []Game
	file     *durable.File // the new version; its lock keeps other matches from writing the file
	journal  *durable.Journal
}

// line is a line of the journal: the first contains the settings, each other one a game.
type line struct {
	*Settings
	*Game
}

const settingsKey = "evald.match"

const (
	foreignRecord  = "is there already and is no record of a match: name another file"
	foreignJournal = "is there already and is no journal of a match: name another file, or remove it"
)

// OpenRecord opens the record of a match, or begins it. It fails if another process has the record open. It checks the record's games
// against the match: if they belong to another match, the error names the difference, and the files stay unchanged.
func OpenRecord(path string, m *Match, openings string) (*Record, error) {
	r := &Record{path: path, settings: Settings{m.Board.Rules().String(), m.Names(), m.Seed, openings}}
	var err error
	if r.file, err = durable.Create(path); errors.Is(err, durable.ErrInUse) {
		return nil, fmt.Errorf("record %s: another match is writing this file: name another one, or wait for it to end", path)
	}
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	if err := r.begin(m); err != nil {
		r.file.Abort()
		return nil, err
	}
	return r, nil
}

// begin reads the games of the file and of its journal, and rewrites the journal.
func (r *Record) begin(m *Match) error {
	if err := r.readParquet(); err != nil {
		return fmt.Errorf("record %s: %w", r.path, err)
	}
	lines, err := r.readJournal()
	if err != nil {
		return fmt.Errorf("record %s: %w", r.part(), err)
	}
	for _, l := range lines[1:] {
		r.games = append(r.games, *l.Game)
	}
	slices.SortFunc(r.games, func(a, b Game) int { return cmp.Compare(a.Number, b.Number) })
	r.games = slices.CompactFunc(r.games, func(a, b Game) bool { return a.Number == b.Number })
	if err := m.checkAll(r.games); err != nil {
		return fmt.Errorf("record %s: %w", r.path, err)
	}
	r.journal, err = durable.BeginJournal(r.part(), lines)
	return err
}

// Games are the games finished so far, in any order. The caller must not change the slice.
func (r *Record) Games() []Game { return r.games }

// Add appends a finished game. When Add has returned, the game survives a kill of the program, but perhaps not a crash of the machine.
func (r *Record) Add(g Game) error {
	r.games = append(r.games, g)
	return r.journal.Add(line{Game: &g})
}

// Close writes the file, if there are games, and removes the journal.
func (r *Record) Close() error {
	defer r.file.Abort()
	if len(r.games) > 0 {
		slices.SortFunc(r.games, func(a, b Game) int { return cmp.Compare(a.Number, b.Number) })
		if err := r.writeParquet(); err != nil {
			return errors.Join(fmt.Errorf("record %s: %w; the games are in %s", r.path, err, r.part()), r.journal.Close())
		}
	}
	return errors.Join(r.journal.Close(), os.Remove(r.part()))
}

func (r *Record) part() string { return r.path + ".part" }

// ErrNoMatch means that a file is not the record of a match.
var ErrNoMatch = errors.New("is no record of a match")

// ReadGames reads the games of a finished match from its file. Errors name the file, and wrap ErrNoMatch if it is not a record.
func ReadGames(path string) ([]Game, error) {
	_, games, err := readParquet(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return games, nil
}

func (r *Record) readParquet() error {
	there, games, err := readParquet(r.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, ErrNoMatch):
		return errors.New(foreignRecord)
	case err != nil:
		return err
	}
	r.games = games
	return r.same(there)
}

func readParquet(path string) (there Settings, games []Game, err error) {
	f, err := os.Open(path)
	if err != nil {
		return there, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return there, nil, err
	}
	if _, err := durable.CheckParquet(f, info.Size()); err != nil {
		return there, nil, fmt.Errorf("%w: remove it, and its games are played again", err)
	}
	file, err := parquet.OpenFile(f, info.Size())
	if err != nil {
		return there, nil, ErrNoMatch
	}
	text, ok := file.Lookup(settingsKey)
	if !ok {
		return there, nil, ErrNoMatch
	}
	if err := json.Unmarshal([]byte(text), &there); err != nil {
		return there, nil, fmt.Errorf("its settings: %w", err)
	}
	games, err = parquet.Read[Game](f, info.Size())
	return there, games, err
}

func (r *Record) writeParquet() error {
	settings, err := json.Marshal(r.settings)
	if err != nil {
		return err
	}
	w := parquet.NewGenericWriter[Game](r.file, parquet.Compression(&zstd.Codec{}), parquet.CreatedBy("evald", "", ""),
		parquet.KeyValueMetadata(settingsKey, string(settings)), parquet.KeyValueMetadata(durable.ParquetKey, durable.ParquetZeros))
	_, err = w.Write(r.games)
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	if err := r.file.SealParquet(); err != nil {
		return err
	}
	return r.file.Commit()
}

// readJournal returns the complete lines of the journal, which must belong to this match. The first contains the settings. If there is no
// journal, or an empty one, readJournal returns only that line.
func (r *Record) readJournal() ([]line, error) {
	const begins = `{"rules":`
	text, err := os.ReadFile(r.part())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if head := text[:min(len(text), len(begins))]; string(head) != begins[:len(head)] {
		return nil, errors.New(foreignJournal)
	}
	lines, err := durable.Lines[line](text, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: remove that line, and its game is played again; if it is line 1, remove the file", err)
	}
	if len(lines) == 0 {
		return []line{{Settings: &r.settings}}, nil
	}
	for i, l := range lines {
		if (l.Settings != nil) != (i == 0) || (l.Game != nil) != (i > 0) {
			return nil, errors.New(foreignJournal)
		}
	}
	return lines, r.same(*lines[0].Settings)
}

// same returns an error that names the differences between the settings of the record and those of the match, or nil.
func (r *Record) same(there Settings) error {
	var differ []string
	differs := func(what, there, here string) {
		if there != here {
			differ = append(differ, fmt.Sprintf("%s %s there, %s here", what, there, here))
		}
	}
	here := r.settings
	differs("rules are", there.Rules, here.Rules)
	differs("players are", strings.Join(there.Players, " "), strings.Join(here.Players, " "))
	differs("seed is", fmt.Sprint(there.Seed), fmt.Sprint(here.Seed))
	differs("openings are", there.Openings, here.Openings)
	if differ == nil {
		return nil
	}
	return fmt.Errorf("has games of another match (%s): continue with its settings, or name another file", strings.Join(differ, "; "))
}

// checkAll returns an error if the games, sorted by number, are not those of the match.
func (m *Match) checkAll(games []Game) error {
	for i := range games {
		if err := m.check(&games[i]); err != nil {
			return err
		}
	}
	if len(games) > 0 {
		if last := m.pairing(int(games[len(games)-1].Number)); last.opening >= len(m.Openings) {
			return fmt.Errorf("has %d games a pair: ask for at least this number, or name another file", 2*(last.opening+1))
		}
	}
	return nil
}

// check returns an error if a game from a record does not belong to the match.
func (m *Match) check(g *Game) error {
	if g.Number < 1 {
		return fmt.Errorf("game %d: games are numbered from 1", g.Number)
	}
	at := m.pairing(int(g.Number))
	switch {
	case g.First != m.Players[at.first].Name || g.Second != m.Players[at.second].Name:
		return fmt.Errorf("game %d is %s against %s there, %s against %s here", g.Number, g.First, g.Second, m.Players[at.first].Name, m.Players[at.second].Name)
	case int(g.Pair) != at.pair+1 || int(g.Opening) != at.opening+1:
		return fmt.Errorf("game %d is of pair %d, opening %d; want pair %d, opening %d", g.Number, g.Pair, g.Opening, at.pair+1, at.opening+1)
	case at.opening < len(m.Openings) && g.OpeningMoves != m.opening(at.opening):
		return fmt.Errorf("game %d begins with %s there, with %s here: continue with its openings, or name another file", g.Number, g.OpeningMoves, m.opening(at.opening))
	case g.Points != 0 && g.Points != 0.5 && g.Points != 1:
		return fmt.Errorf("game %d: %v points, want 0, 0.5 or 1", g.Number, g.Points)
	}
	return nil
}
