package library

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/record"
)

// RecordPaths lists files of records, as JSON.
type RecordPaths struct {
	Files []string `json:"files"`
}

func openRecords(options string) (*record.Reader, error) {
	var o RecordPaths
	if err := decode(options, &o); err != nil {
		return nil, fmt.Errorf("files of records: %w", err)
	}
	if len(o.Files) == 0 {
		return nil, errors.New("no files of records")
	}
	return record.Open(o.Files...)
}

// Records returns the number of records in files, and the rules of the first record, "" if there is none. options is RecordPaths as JSON.
func Records(options string) (rows int64, rules string, err error) {
	r, err := openRecords(options)
	if err != nil {
		return 0, "", err
	}
	defer r.Close()
	var first record.Record
	switch err := r.Next(&first); {
	case errors.Is(err, io.EOF):
		return 0, "", nil
	case err != nil:
		return 0, "", err
	}
	return r.Rows(), first.Rules.String(), nil
}

// RecordRows is memory for N records. The columns are those of package record.
type RecordRows struct {
	Positions []game.Position // [N]
	Visits    []uint32        // [N,A]; all 0 without a search
	Q, Weight []float32       // [N]
	Z         []int8          // [N]
	GameOver  []uint8         // [N]
	Ply, Move []int32         // [N]; a Move is an action from 0, or -1 for none
	Game      []int64         // [N]
	Policy    []float32       // [N,A]; all 0 without a policy in floats
	By        []uint16        // [N] index of the network's name
	Who       []uint8         // [N] source of the answer, as in Evaluate
}

// RecordNames is the result of Read, as JSON: the names that RecordRows.By numbers.
type RecordNames struct {
	Networks []string `json:"networks"`
}

// Read reads the records of a board. Records of other games are skipped if other is set, and an error otherwise. The final value of the
// Work's progress is the number of records read, and its result are RecordNames.
func Read(b *game.Board, options string, other bool, rows RecordRows) (*Work, error) {
	r, err := openRecords(options)
	if err != nil {
		return nil, err
	}
	return begin(nil, int(r.Rows()), nil, func(ctx context.Context, w *Work) error {
		defer r.Close()
		n := b.Actions()
		var rec record.Record
		names, numbers := RecordNames{Networks: []string{}}, map[string]uint16{}
		for i := 0; ; {
			err := r.Next(&rec)
			switch {
			case errors.Is(err, io.EOF):
				return w.report(names)
			case err != nil:
				return err
			case ctx.Err() != nil:
				return ctx.Err()
			case rec.Rules != b.Rules() && other:
				continue
			case rec.Rules != b.Rules():
				return fmt.Errorf("%s: is of %v, and others are of %v: name the rules of those that are to be read", r.Where(), rec.Rules, b.Rules())
			case i == len(rows.Q):
				return fmt.Errorf("%s: the files have more records than before: read them again", r.Where())
			}
			rows.Positions[i] = rec.Position
			clear(rows.Visits[i*n : (i+1)*n])
			copy(rows.Visits[i*n:(i+1)*n], rec.Visits)
			clear(rows.Policy[i*n : (i+1)*n])
			copy(rows.Policy[i*n:(i+1)*n], rec.Policy)
			rows.Q[i], rows.Weight[i], rows.Z[i], rows.GameOver[i] = rec.Q, rec.Weight, rec.Z, rec.GameOver
			rows.Ply[i], rows.Move[i], rows.Game[i], rows.Who[i] = int32(rec.Ply), int32(rec.Move)-1, rec.Game, code(rec.Source)
			by, known := numbers[rec.Network]
			if !known {
				if len(numbers) > math.MaxUint16 {
					return fmt.Errorf("the files name more than %d networks: read fewer files at once", len(numbers))
				}
				by = uint16(len(numbers))
				numbers[rec.Network], names.Networks = by, append(names.Networks, rec.Network)
			}
			rows.By[i] = by
			i++
			w.done.Store(int64(i))
		}
	}), nil
}

// Write writes records to a file, which appears when it is complete, and replaces another one of that
// name. networks are the names that rows.By numbers. Rows without visits have no search. The file has the
// column policy if a row has a policy. A value that readers would reject is an error that names the
// record and the column.
func Write(b *game.Board, file string, networks []string, rows RecordRows) *Work {
	return begin(nil, len(rows.Q), nil, func(ctx context.Context, w *Work) error {
		out, err := record.CreateIn(durable.OS, file, slices.ContainsFunc(rows.Policy, isSet))
		if err != nil {
			return err
		}
		defer out.Abort()
		n := b.Actions()
		for i := range rows.Q {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			rec, err := rows.record(b, n, i, networks)
			if err == nil {
				err = out.Write(&rec)
			}
			if err != nil {
				return err
			}
			w.done.Add(1)
		}
		return out.Close()
	})
}

func isSet(share float32) bool { return share != 0 }

// record returns row i.
func (r RecordRows) record(b *game.Board, n, i int, networks []string) (rec record.Record, err error) {
	if int(r.By[i]) >= len(networks) {
		return rec, fmt.Errorf("record %d: there is no network %d", i, r.By[i])
	}
	if int(r.Who[i]) >= len(sources) {
		return rec, fmt.Errorf("record %d: there is no source %d", i, r.Who[i])
	}
	if r.Move[i] < -1 || int(r.Move[i]) >= n {
		return rec, fmt.Errorf("record %d: move is %d, and must be an action, or -1 for none", i, r.Move[i])
	}
	rec = record.Record{
		Rules: b.Rules(), Position: r.Positions[i], Q: r.Q[i], Z: r.Z[i], GameOver: r.GameOver[i], Ply: int(r.Ply[i]),
		Source: sources[r.Who[i]], Network: networks[r.By[i]], Weight: r.Weight[i], Game: r.Game[i], Move: uint8(r.Move[i] + 1),
	}
	if visits := r.Visits[i*n : (i+1)*n]; slices.Max(visits) > 0 {
		rec.Visits = visits
	}
	if policy := r.Policy[i*n : (i+1)*n]; slices.ContainsFunc(policy, isSet) {
		rec.Policy = policy
	}
	return rec, nil
}
