package record

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/score"
)

// SolvedReader reads files of exact scores as one stream of records whose rows are numbered from 0. The files have a position per line with
// the scores of its moves, in any format of score.Reader. It holds one line in memory, and the place of one line in 1024. It is not safe
// for concurrent use.
type SolvedReader struct {
	files  []solvedFile
	total  int64
	boards game.Boards

	file  int      // index of the open file, or of the next one
	open  *os.File // nil if no file is open
	lines *score.Reader
	at    int64 // next row of the file
}

// solvedFile is a file and the places of some of its rows.
type solvedFile struct {
	path  string
	rows  int64
	marks []score.Place // places of rows 0, markEvery, 2*markEvery and so on
}

const markEvery = 1024

// OpenSolved reads all files once and counts their rows. The error names the file and line that is wrong.
func OpenSolved(paths ...string) (*SolvedReader, error) {
	r := &SolvedReader{}
	for _, path := range paths {
		f, err := r.scan(path)
		if err != nil {
			return nil, fmt.Errorf("exact scores %s: %w", path, err)
		}
		r.files = append(r.files, f)
		r.total += f.rows
	}
	return r, nil
}

// openRegular opens a regular file. Errors do not name it.
func openRegular(path string) (*os.File, error) {
	if err := regular(durable.OS, path); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	return f, errors.Unwrap(err)
}

// scan reads a whole file, counts its rows and marks their places.
func (r *SolvedReader) scan(path string) (s solvedFile, err error) {
	s.path = path
	f, err := openRegular(path)
	if err != nil {
		return s, err
	}
	defer f.Close()
	in := score.NewReader(f, score.Place{})
	var rec Record
	for {
		if s.rows%markEvery == 0 {
			s.marks = append(s.marks, in.Place())
		}
		switch err := r.next(in, &rec); {
		case errors.Is(err, io.EOF):
			return s, nil
		case err != nil:
			return s, err
		}
		s.rows++
	}
}

// Rows is the number of positions in all files.
func (r *SolvedReader) Rows() int64 { return r.total }

// Close closes the file being read.
func (r *SolvedReader) Close() error {
	if r.open == nil {
		return nil
	}
	err := r.open.Close()
	r.open, r.lines = nil, nil
	return err
}

// SeekRow makes row n, from 0 to Rows, the next one.
func (r *SolvedReader) SeekRow(n int64) error {
	if n < 0 || n > r.total {
		return fmt.Errorf("exact scores: no row %d: there are %d", n, r.total)
	}
	r.file, r.at = 0, n
	for r.file < len(r.files) && r.at >= r.files[r.file].rows {
		r.at -= r.files[r.file].rows
		r.file++
	}
	return r.Close()
}

// Next reads the next position into rec, with weight 1. After the last position the error is io.EOF. Other errors name the file and the
// line.
func (r *SolvedReader) Next(rec *Record) error {
	for r.file < len(r.files) && r.at == r.files[r.file].rows {
		if err := r.Close(); err != nil {
			return err
		}
		r.file, r.at = r.file+1, 0
	}
	if r.file == len(r.files) {
		return io.EOF
	}
	if err := r.inFile(rec); err != nil {
		_ = r.Close() // so that the next call returns the same error
		return fmt.Errorf("exact scores %s: %w", r.files[r.file].path, err)
	}
	r.at++
	return nil
}

// Where returns the file and line of the last record from Next, for errors about that record.
func (r *SolvedReader) Where() string {
	return fmt.Sprintf("exact scores %s: line %d", r.files[r.file].path, r.lines.Place().Line)
}

// inFile reads the next row of the current file. It opens the file if needed.
func (r *SolvedReader) inFile(rec *Record) error {
	f := &r.files[r.file]
	skip := int64(0)
	if r.open == nil {
		mark := f.marks[r.at/markEvery]
		open, err := openRegular(f.path)
		if err != nil {
			return err
		}
		if r.open = open; mark.Offset > 0 {
			if _, err := open.Seek(mark.Offset, io.SeekStart); err != nil {
				return err
			}
		}
		r.lines, skip = score.NewReader(open, mark), r.at%markEvery
	}
	for ; skip >= 0; skip-- {
		err := r.next(r.lines, rec)
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("ends before position %d of %d: it was changed while it was read", r.at+1, f.rows)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *SolvedReader) next(in *score.Reader, rec *Record) error {
	p, err := in.Next()
	if err != nil {
		return err
	}
	*rec = FromScores(p.State.Board, p.State.Position, p.Scores)
	if err := rec.Check(&r.boards); err != nil {
		return fmt.Errorf("line %d: %w", in.Place().Line, err)
	}
	return nil
}

// FromScores returns the record of an unfinished position with known exact scores. scores has a score for each action, solver.NoMove if the
// action is illegal. Q and Z are the sign of the best score, and Visits is 1 for each move with the best score. Weight is 1, and Game is
// NoGame.
func FromScores(board *game.Board, p game.Position, scores []int) Record {
	best := slices.Max(scores)
	visits := make([]uint32, len(scores))
	for a, s := range scores {
		if s == best {
			visits[a] = 1
		}
	}
	z := int8(cmp.Compare(best, 0))
	return Record{
		Rules: board.Rules(), Position: p, Visits: visits, Q: float32(z), Z: z, Ply: p.Plies(), Source: eval.Solved, Weight: 1, Game: NoGame,
	}
}
