package record_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/parquet-go/parquet-go"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/record"
	"github.com/evald/evald/engine/record/recordtest"
)

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good.parquet")
	recordtest.Write(t, good, records(1, 300))
	whole, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	type other struct {
		Rules string `parquet:"rules"`
	}
	parquetOf := func(options ...parquet.WriterOption) []byte {
		var b bytes.Buffer
		if err := parquet.Write(&b, []other{{"7x6x4"}}, options...); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for _, c := range []struct {
		name    string
		content []byte
		want    string
	}{
		{"empty", nil, "has 0 bytes, too few for Parquet"},
		{"text", []byte(strings.Repeat("no Parquet at all\n", 20)), "is not a whole Parquet file"},
		{"cut", whole[:len(whole)-1], "is not a whole Parquet file"},
		{"half", whole[:len(whole)/2], "is not a whole Parquet file"},
		{"foreign", parquetOf(), "not of training records: its metadata has no evald.records"},
		{"newer", parquetOf(parquet.KeyValueMetadata("evald.records", "3")), `metadata evald.records is "3", but this evald reads versions 1 and 2`},
		{"columns", parquetOf(parquet.KeyValueMetadata("evald.records", "1")), "column own_lo is missing"},
		{"2 with the columns of 1", relabelled(t, "1", "2"), "column game is missing"},
	} {
		path := filepath.Join(dir, c.name)
		if err := os.WriteFile(path, c.content, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := record.Open(good, path)
		if err == nil || !strings.HasPrefix(err.Error(), "records "+path+": ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := record.Open(filepath.Join(dir, "nonesuch")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := record.Open(dir); err == nil || !strings.HasSuffix(err.Error(), "is not a regular file") {
		t.Errorf("a folder: %v", err)
	}
}

// relabelled is the file of version 1, changed to say that it is of another version.
func relabelled(t *testing.T, from, to string) []byte {
	t.Helper()
	file, err := os.ReadFile("testdata/version1.parquet")
	if err != nil {
		t.Fatal(err)
	}
	const key = "evald.records\x18\x01" // and one byte of text
	if bytes.Count(file, []byte(key+from)) != 1 {
		t.Fatal("the version is not where it was expected")
	}
	return bytes.Replace(file, []byte(key+from), []byte(key+to), 1)
}

// A file of version 1 was written before there were columns game and move. Its records are of no game and without moves, and
// are otherwise what was written: the rows of three games in their order.
func TestVersion1(t *testing.T) {
	const version1Rows = 83
	old := "testdata/version1.parquet"
	now := filepath.Join(t.TempDir(), "now.parquet")
	recordtest.Write(t, now, []record.Record{connect4()})
	for want, paths := range map[int][]string{1: {now, old}, 2: {now, now}} {
		if got := open(t, paths...).Oldest(); got != want {
			t.Errorf("%v: oldest version %d, want %d", paths, got, want)
		}
	}
	rs := recordtest.Rest(t, open(t, old, now, old))
	if len(rs) != 2*version1Rows+1 {
		t.Fatalf("%d records", len(rs))
	}
	if diff := cmp.Diff(rs[:version1Rows], rs[version1Rows+1:]); diff != "" {
		t.Errorf("the second reading differs: %s", diff)
	}
	if diff := cmp.Diff(connect4(), rs[version1Rows]); diff != "" {
		t.Errorf("between files of version 1: %s", diff)
	}
	var lengths []int
	for i := range version1Rows {
		r := &rs[i]
		if r.Game != record.NoGame || r.Move != 0 || r.Weight != 1 || r.Network != "bitsquares" || r.Rules != game.Connect4 {
			t.Fatalf("row %d is %+v", i, r)
		}
		if i == 0 || !r.Continues(&rs[i-1]) {
			lengths = append(lengths, 0)
		}
		lengths[len(lengths)-1]++
	}
	if diff := cmp.Diff([]int{34, 31, 18}, lengths); diff != "" {
		t.Errorf("rows of the games: %s", diff)
	}
}

// Columns may be in any order: they are found by their names.
func TestColumnOrder(t *testing.T) {
	type reversed struct {
		Move     uint8    `parquet:"move"`
		Game     int64    `parquet:"game"`
		Weight   float32  `parquet:"weight"`
		Network  string   `parquet:"network"`
		Source   string   `parquet:"source"`
		Ply      int32    `parquet:"ply"`
		GameOver uint8    `parquet:"gameover"`
		Z        int8     `parquet:"z"`
		Q        float32  `parquet:"q"`
		Visits   []uint32 `parquet:"visits,list"`
		AllHi    uint64   `parquet:"all_hi"`
		AllLo    uint64   `parquet:"all_lo"`
		OwnHi    uint64   `parquet:"own_hi"`
		OwnLo    uint64   `parquet:"own_lo"`
		Rules    string   `parquet:"rules"`
	}
	rs := records(7, 300)
	rows := make([]reversed, len(rs))
	for i, r := range rs {
		rows[i] = reversed{
			r.Move, r.Game, r.Weight, r.Network, r.Source.String(), int32(r.Ply), r.GameOver, r.Z, r.Q, r.Visits,
			r.Position.All.Hi, r.Position.All.Lo, r.Position.Own.Hi, r.Position.Own.Lo, r.Rules.String(),
		}
	}
	path := filepath.Join(t.TempDir(), "reversed.parquet")
	if err := parquet.WriteFile(path, rows, parquet.KeyValueMetadata("evald.records", "2")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rs, recordtest.Rest(t, open(t, path)), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}
