package train

import (
	"fmt"

	"github.com/evald/evald/engine/record"
)

// Survey counts the records before training. A record counts unless its weight is 0, or a heuristic answered it and
// RecordOptions.Heuristics is not set.
type Survey struct {
	Records  int64
	Ignored  int64    // answered by heuristics
	Count    int64    // records that count
	Policies int64    // of those that count, records with a policy
	Outcomes [3]int64 // of those that count, records of won, drawn and lost games
}

func (s *Survey) add(rec *record.Record, heuristics bool) {
	s.Records++
	switch {
	case rec.Weight == 0:
		return
	case !heuristics && !learnable(rec.Source):
		s.Ignored++
		return
	}
	s.Count++
	s.Outcomes[1-rec.Z]++
	if len(rec.Visits) > 0 || len(rec.Policy) > 0 {
		s.Policies++
	}
}

// survey reads all records once and decides which are held out, so that errors in the files are found before training begins.
func (r *Records) survey() error {
	rows := r.reader.Rows()
	if r.options.HeldOut > 0 {
		r.isOut = make([]bool, rows)
		r.heldOut = &Records{reader: r.reader, board: r.board, options: r.options, isOut: r.isOut, out: true, sizes: make([]int64, len(r.sizes)), pass: -1}
	}
	if err := r.reader.SeekRow(0); err != nil {
		return err
	}
	games := split{seed: r.options.Seed, share: r.options.HeldOut}
	rec, before := &record.Record{}, &record.Record{}
	for row := range rows {
		if err := r.reader.Next(rec); err != nil {
			return err
		}
		if rec.Rules != r.board.Rules() {
			return fmt.Errorf("%s is of %v, and the run is one of %v: a run learns one game, give its rules or other files", r.reader.Where(), rec.Rules, r.board.Rules())
		}
		if r.options.Without.Has(r.board, rec.Position) {
			return fmt.Errorf("%s is in a set that must not be learned from: leave it out, as evald merge --without does", r.reader.Where())
		}
		part := r
		if r.heldOut != nil && games.out(rec, before) {
			part, r.isOut[row] = r.heldOut, true
		}
		part.sizes[row/chunkRows]++
		part.Survey.add(rec, r.options.Heuristics)
		rec, before = before, rec
	}
	return nil
}

// split decides which records are held out: whole games, selected by the seed and the game's number. Consecutive rows without a number
// belong to one game as long as each follows from the row before by a move, as self-play writes them. Such games are numbered in the order
// of the rows.
type split struct {
	seed  uint64
	share float64

	unnumbered int   // number of games without a number so far
	game       int64 // game of the previous record, or record.NoGame
	last       bool  // that game is held out
	begun      bool
}

// out reports whether rec is held out; before is the record before it.
func (s *split) out(rec, before *record.Record) bool {
	use, number := forHoldingOut, int(rec.Game)
	switch {
	case s.begun && rec.Game == s.game && (rec.Game != record.NoGame || rec.Continues(before)):
		return s.last
	case rec.Game == record.NoGame:
		s.unnumbered++
		use, number = forHoldingOutUnnumbered, s.unnumbered
	}
	s.begun, s.game, s.last = true, rec.Game, randomOf(s.seed, use, number).Float64() < s.share
	return s.last
}
