package arena

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/evald/evald/engine/filelock"
	"github.com/evald/evald/engine/parquetsum"
	"github.com/evald/evald/engine/sumjson"
	"github.com/evald/evald/engine/wholefile"
)

// Settings are what all games of a record have in common. Games with other settings belong to another match.
type Settings struct {
	Rules    string   `json:"rules"`
	Players  []string `json:"players"` // in the order of the match
	Seed     uint64   `json:"seed"`
	Openings string   `json:"openings"` // where they come from, in words; each game has its own moves
}

// Record is the file of a match. During the match, finished games are appended to a journal beside it, FILE.part: a line of
// JSON with the settings, then one line per game, each with its checksum (sumjson). Each line is written in one call
// together with its newline, so only the last can be torn if the program is killed. Close writes all games to FILE as
// Parquet, with the settings as metadata under "evald.match" and a checksum (parquetsum), and removes the journal. The games
// of a record are those of FILE and of its journal.
type Record struct {
	path     string
	settings Settings
	games    []Game

	journal *os.File
	fresh   bool  // the journal was empty when it was opened
	end     int64 // end of the journal's last whole line when it was opened
}

const settingsKey = "evald.match"

const (
	foreignRecord  = "is there already and is no record of a match: name another file"
	foreignJournal = "is there already and is no journal of a match: name another file, or remove it"
)

// OpenRecord opens the record of a match or begins it. No other process may have it open. The games in it are checked
// against the match: if they belong to another one, the error says what differs, and the files stay as they are.
func OpenRecord(path string, m *Match, openings string) (*Record, error) {
	r := &Record{path: path, settings: Settings{m.Board.Rules().String(), m.Names(), m.Seed, openings}}
	if err := r.openJournal(); err != nil {
		return nil, fmt.Errorf("record %s: %w", r.part(), err)
	}
	if err := r.read(m); err != nil {
		return nil, errors.Join(err, r.abandon())
	}
	return r, nil
}

// read reads the games of the file and of its journal.
func (r *Record) read(m *Match) error {
	if err := r.readParquet(); err != nil {
		return fmt.Errorf("record %s: %w", r.path, err)
	}
	if err := r.readJournal(); err != nil {
		return fmt.Errorf("record %s: %w", r.part(), err)
	}
	slices.SortFunc(r.games, func(a, b Game) int { return cmp.Compare(a.Number, b.Number) })
	r.games = slices.CompactFunc(r.games, func(a, b Game) bool { return a.Number == b.Number })
	if err := m.checkAll(r.games); err != nil {
		return fmt.Errorf("record %s: %w", r.path, err)
	}
	return r.begin()
}

// abandon closes a record that could not be used. It removes a journal that was begun for it.
func (r *Record) abandon() error {
	if r.fresh {
		return errors.Join(r.journal.Close(), os.Remove(r.part()))
	}
	return r.journal.Close()
}

// Games are the games finished so far, in no particular order. The slice must not be changed.
func (r *Record) Games() []Game { return r.games }

// Add appends a finished game. Once Add has returned, the game survives a kill of the program, but not a crash of the machine.
func (r *Record) Add(g Game) error {
	r.games = append(r.games, g)
	return r.writeLine(g)
}

// Close writes the file, if there are games, and removes the journal.
func (r *Record) Close() error {
	if len(r.games) > 0 {
		slices.SortFunc(r.games, func(a, b Game) int { return cmp.Compare(a.Number, b.Number) })
		if err := r.writeParquet(); err != nil {
			return errors.Join(fmt.Errorf("record %s: %w; the games are in %s", r.path, err, r.part()), r.journal.Close())
		}
	}
	return errors.Join(r.journal.Close(), os.Remove(r.part()))
}

func (r *Record) part() string { return r.path + ".part" }

func (r *Record) writeLine(v any) error {
	line, err := sumjson.Marshal(v)
	if err != nil {
		return err
	}
	_, err = r.journal.Write(append(line, '\n'))
	return err
}

func (r *Record) readParquet() error {
	f, err := os.Open(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New(foreignRecord)
	}
	if err := parquetsum.Check(f, info.Size()); err != nil {
		return fmt.Errorf("%w: remove it, and its games are played again", err)
	}
	file, err := parquet.OpenFile(f, info.Size())
	if err != nil {
		return errors.New(foreignRecord)
	}
	text, ok := file.Lookup(settingsKey)
	if !ok {
		return errors.New(foreignRecord)
	}
	var there Settings
	if err := json.Unmarshal([]byte(text), &there); err != nil {
		return fmt.Errorf("its settings: %w", err)
	}
	if err := r.same(there); err != nil {
		return err
	}
	r.games, err = parquet.Read[Game](f, info.Size())
	return err
}

func (r *Record) writeParquet() error {
	settings, err := json.Marshal(r.settings)
	if err != nil {
		return err
	}
	f, err := wholefile.Create(r.path)
	if err != nil {
		return err
	}
	defer f.Abort()
	w := parquet.NewGenericWriter[Game](f, parquet.Compression(&zstd.Codec{}), parquet.CreatedBy("evald", "", ""),
		parquet.KeyValueMetadata(settingsKey, string(settings)), parquet.KeyValueMetadata(parquetsum.Key, parquetsum.Zeros))
	_, err = w.Write(r.games)
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := parquetsum.Seal(f, info.Size()); err != nil {
		return err
	}
	return f.Commit()
}

// openJournal opens the journal or begins it, for this process alone.
func (r *Record) openJournal() error {
	f, err := filelock.Open(r.part(), errInUse)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r.journal, r.fresh = f, info.Size() == 0
	return nil
}

var errInUse = errors.New("another match is writing this file: name another one, or wait for it to end")

// readJournal reads the whole lines. If the first line is empty or torn, the program was killed before its first game.
func (r *Record) readJournal() error {
	text, err := io.ReadAll(r.journal)
	if err != nil {
		return err
	}
	const begins = `{"rules":`
	if head := text[:min(len(text), len(begins))]; string(head) != begins[:len(head)] {
		return errors.New(foreignJournal)
	}
	for number, line := range sumjson.Lines(text) {
		if number == 1 {
			var there Settings
			if err := sumjson.Unmarshal(line, &there); err != nil {
				return fmt.Errorf("line 1, which says what match it is: %w: remove the file, and its games are played again", err)
			}
			if err := r.same(there); err != nil {
				return err
			}
		} else {
			var g Game
			if err := sumjson.Unmarshal(line, &g); err != nil {
				return fmt.Errorf("line %d: %w: remove that line, and its game is played again", number, err)
			}
			r.games = append(r.games, g)
		}
		r.end += int64(len(line)) + 1
	}
	return nil
}

// begin prepares the journal for more lines: everything after its last whole line is cut off.
func (r *Record) begin() error {
	if err := r.journal.Truncate(r.end); err != nil {
		return err
	}
	if _, err := r.journal.Seek(r.end, io.SeekStart); err != nil {
		return err
	}
	if r.end == 0 {
		return r.writeLine(r.settings)
	}
	return nil
}

// same returns an error that says how the settings of the record differ from those of the match, or nil.
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
	return fmt.Errorf("has games of another match (%s): go on with its settings, or name another file", strings.Join(differ, "; "))
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
			return fmt.Errorf("has %d games a pair: ask for as many or more, or name another file", 2*(last.opening+1))
		}
	}
	return nil
}

// check returns an error if a game read from a record is not one of the match.
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
		return fmt.Errorf("game %d begins with %s there, with %s here: go on with its openings, or name another file", g.Number, g.OpeningMoves, m.opening(at.opening))
	case g.Points != 0 && g.Points != 0.5 && g.Points != 1:
		return fmt.Errorf("game %d: %v points, want 0, 0.5 or 1", g.Number, g.Points)
	}
	return nil
}
