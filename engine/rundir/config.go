package rundir

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"strings"

	"github.com/evald/evald/engine/sumjson"
	"github.com/evald/evald/engine/wholefile"
)

// Keep writes a configuration, a struct, to a file of JSON with its checksum; where there is one, it must be the same. A
// field that the file lacks, as where an older program wrote it, counts as zero.
func Keep[C any](path string, c C) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if text, err = sumjson.MarshalIndent(c); err != nil {
			return err
		}
		return wholefile.Write(path, text)
	}
	if err != nil {
		return err
	}
	var old C
	content, err := sumjson.Open(text)
	if err == nil {
		decode := json.NewDecoder(bytes.NewReader(content))
		decode.DisallowUnknownFields()
		err = decode.Decode(&old)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: it is damaged or another version's, name another folder", path, err)
	}
	if err := Same(old, c); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Same says in which field two configurations, structs, differ, or is nil. Fields that JSON leaves out do not count.
func Same[C any](was, is C) error {
	if field, was, is := difference(reflect.ValueOf(was), reflect.ValueOf(is)); field != "" {
		return fmt.Errorf("the run has %s %s, and now it is %s: give the same again, or name another folder", field, was, is)
	}
	return nil
}

// difference is the first field that differs and its two values, as in JSON; the field is "" where there is none.
func difference(a, b reflect.Value) (field string, was, is []byte) {
	for i := range a.NumField() {
		f := a.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		name = cmp.Or(name, f.Name)
		x, y := a.Field(i), b.Field(i)
		if x.Kind() == reflect.Struct {
			if inner, was, is := difference(x, y); inner != "" {
				return name + "." + inner, was, is
			}
		} else if !reflect.DeepEqual(x.Interface(), y.Interface()) {
			was, _ = json.Marshal(x.Interface()) // configurations are written as JSON, Keep says where they cannot be
			is, _ = json.Marshal(y.Interface())
			return name, was, is
		}
	}
	return "", nil, nil
}
