package record_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/record"
	"github.com/evald/evald/engine/record/recordtest"
)

// games are the records of random games on 7x6.
func games(seed uint64, n int) (all []record.Record) {
	b, r := game.MustBoard(game.Connect4), gametest.Rand(seed)
	for number := range n {
		var p game.Position
		for over := false; !over; {
			rec := record.Record{Rules: b.Rules(), Position: p, GameOver: b.Result(p).GameOver(), Ply: p.Plies(), Source: eval.CPU, Network: "default@8", Weight: 1, Game: int64(number)}
			if over = rec.GameOver != game.NotOver; over {
				rec.Z = [...]int8{game.OwnWin: 1, game.OtherWin: -1, game.Drawn: 0}[rec.GameOver]
			} else {
				legal := b.Legal(p)
				rec.Q, rec.Visits = 2*r.Float32()-1, make([]uint32, b.Actions())
				for moves := legal; !moves.IsZero(); moves = moves.WithoutFirst() {
					rec.Visits[b.Action(moves.First())] = 1 + r.Uint32N(50)
				}
				a := b.Action(legal.Nth(r.IntN(legal.OnesCount())).First())
				p, rec.Move = b.Play(p, a), uint8(a+1)
			}
			all = append(all, rec)
		}
	}
	return all
}

// The numbers of games and the moves take less than half a byte a record, the moves of random games at least log2(7) bits.
func TestSize(t *testing.T) {
	size := func(rs []record.Record) int64 {
		path := filepath.Join(t.TempDir(), "r.parquet")
		recordtest.Write(t, path, rs)
		info := gametest.Must(os.Stat(path))(t)
		return info.Size()
	}
	rs := games(2, 500)
	with := size(rs)
	for i := range rs {
		rs[i].Game, rs[i].Move = 0, 0
	}
	if each := float64(with-size(rs)) / float64(len(rs)); each > 0.5 || each < 0.3 {
		t.Errorf("both columns take %.2f bytes a record", each)
	}
}

// The rate at which records are read and checked, and what one takes on the disk.
func BenchmarkReader(b *testing.B) {
	path := filepath.Join(b.TempDir(), "r.parquet")
	rs := games(1, 2000)
	recordtest.Write(b, path, rs)
	r := open(b, path)
	var rec record.Record
	for b.Loop() {
		gametest.OK(b, r.SeekRow(0))
		for range rs {
			gametest.OK(b, r.Next(&rec))
		}
	}
	b.ReportMetric(float64(b.N*len(rs))/b.Elapsed().Seconds(), "records/s")
}
