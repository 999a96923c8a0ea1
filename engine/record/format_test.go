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

	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/record"
	"github.com/evald/evald/engine/record/recordtest"
)

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good.parquet")
	recordtest.Write(t, good, records(1, 300))
	whole := gametest.Must(os.ReadFile(good))(t)
	type other struct {
		Rules string `parquet:"rules"`
	}
	parquetOf := func(options ...parquet.WriterOption) []byte {
		var b bytes.Buffer
		gametest.OK(t, parquet.Write(&b, []other{{"7x6x4"}}, options...))
		return b.Bytes()
	}
	file := gametest.Must(parquet.OpenFile(bytes.NewReader(whole), int64(len(whole))))(t)
	group := parquet.Group{"policy": parquet.List(parquet.Leaf(parquet.DoubleType))}
	for _, f := range file.Schema().Fields() {
		group[f.Name()] = f
	}
	var doubles bytes.Buffer
	gametest.OK(t, parquet.NewGenericWriter[any](&doubles, parquet.NewSchema("", group), parquet.KeyValueMetadata("evald.records", "2")).Close())
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
		{"newer", parquetOf(parquet.KeyValueMetadata("evald.records", "3")), `metadata evald.records is "3", but this evald reads version 2`},
		{"policy of doubles", doubles.Bytes(), "column policy is "},
		{"columns", parquetOf(parquet.KeyValueMetadata("evald.records", "2")), "column own_lo is missing"},
	} {
		path := filepath.Join(dir, c.name)
		gametest.OK(t, os.WriteFile(path, c.content, 0o644))
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

// A file without policies has the columns that it had before there were policies, so that its bytes
// stay the same and older programs read it.
func TestSchema(t *testing.T) {
	list := func(column, element string) string {
		return "\trequired group " + column + " (LIST) {\n\t\trepeated group list {\n\t\t\trequired " + element + ";\n\t\t}\n\t}\n"
	}
	columns := "\trequired binary rules (STRING);\n\trequired int64 own_lo (INT(64,false));\n\trequired int64 own_hi (INT(64,false));\n" +
		"\trequired int64 all_lo (INT(64,false));\n\trequired int64 all_hi (INT(64,false));\n" + list("visits", "int32 element (INT(32,false))") +
		"\trequired float q;\n\trequired int32 z (INT(8,true));\n\trequired int32 gameover (INT(8,false));\n\trequired int32 ply (INT(32,true));\n" +
		"\trequired binary source (STRING);\n\trequired binary network (STRING);\n\trequired float weight;\n\trequired int64 game (INT(64,true));\n" +
		"\trequired int32 move (INT(8,false));\n"
	rs := records(1, 30)
	for _, want := range []string{"message row {\n" + columns + "}", "message fullRow {\n" + columns + list("policy", "float element") + "}"} {
		path := filepath.Join(t.TempDir(), "a.parquet")
		recordtest.Write(t, path, rs)
		text := gametest.Must(os.ReadFile(path))(t)
		file := gametest.Must(parquet.OpenFile(bytes.NewReader(text), int64(len(text))))(t)
		if diff := cmp.Diff(want, file.Schema().String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		addPolicies(rs)
	}
}

// Columns may be in any order: they are found by their names.
func TestColumnOrder(t *testing.T) {
	type reversed struct {
		Policy   []float32 `parquet:"policy,list"`
		Move     uint8     `parquet:"move"`
		Game     int64     `parquet:"game"`
		Weight   float32   `parquet:"weight"`
		Network  string    `parquet:"network"`
		Source   string    `parquet:"source"`
		Ply      int32     `parquet:"ply"`
		GameOver uint8     `parquet:"gameover"`
		Z        int8      `parquet:"z"`
		Q        float32   `parquet:"q"`
		Visits   []uint32  `parquet:"visits,list"`
		AllHi    uint64    `parquet:"all_hi"`
		AllLo    uint64    `parquet:"all_lo"`
		OwnHi    uint64    `parquet:"own_hi"`
		OwnLo    uint64    `parquet:"own_lo"`
		Rules    string    `parquet:"rules"`
	}
	rs := records(7, 300)
	addPolicies(rs)
	rows := make([]reversed, len(rs))
	for i, r := range rs {
		rows[i] = reversed{
			r.Policy, r.Move, r.Game, r.Weight, r.Network, r.Source.String(), int32(r.Ply), r.GameOver, r.Z, r.Q, r.Visits,
			r.Position.All.Hi, r.Position.All.Lo, r.Position.Own.Hi, r.Position.Own.Lo, r.Rules.String(),
		}
	}
	path := filepath.Join(t.TempDir(), "reversed.parquet")
	gametest.OK(t, parquet.WriteFile(path, rows, parquet.KeyValueMetadata("evald.records", "2")))
	if diff := cmp.Diff(rs, recordtest.Rest(t, open(t, path)), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}
