// Package recordtest writes and reads files of records for tests.
package recordtest

import (
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/record"
)

// Write writes a file of the given records. It has the column policy if one of them has a policy.
func Write(t testing.TB, path string, records []record.Record) {
	t.Helper()
	policies := slices.ContainsFunc(records, func(r record.Record) bool { return len(r.Policy) > 0 })
	w, err := record.CreateIn(durable.OS, path, policies)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for i := range records {
		if err := w.Write(&records[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// Read returns all records of the given files.
func Read(t testing.TB, paths ...string) []record.Record {
	t.Helper()
	r, err := record.Open(paths...)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	return Rest(t, r)
}

// Rest returns the remaining records of a reader of either kind.
func Rest(t testing.TB, r interface{ Next(*record.Record) error }) (all []record.Record) {
	t.Helper()
	for {
		var rec record.Record
		err := r.Next(&rec)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rec)
	}
}
