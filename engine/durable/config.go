package durable

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"
)

// KeepConfig writes a configuration, a struct, to a JSON file with a checksum. If the file exists, it must contain the same configuration.
// A field that is missing from the file counts as zero.
func KeepConfig[C any](path string, c C) error { return KeepConfigIn(OS, path, c) }

// KeepConfigIn is KeepConfig in any file system.
func KeepConfigIn[C any](files FS, path string, c C) error {
	text, err := files.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if text, err = MarshalIndent(c); err != nil {
			return err
		}
		return WriteFileIn(files, path, text)
	}
	if err != nil {
		return err
	}
	var old C
	content, err := checkedJSON(text)
	if err == nil {
		decode := json.NewDecoder(bytes.NewReader(content))
		decode.DisallowUnknownFields()
		err = decode.Decode(&old)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: it is damaged or another version's, name another folder", path, err)
	}
	if err := SameConfig(old, c); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// SameConfig returns an error that names the first field in which two configurations, structs, differ, or nil. Fields that JSON omits are
// not compared.
func SameConfig[C any](was, is C) error {
	if field, was, is := difference(reflect.ValueOf(was), reflect.ValueOf(is)); field != "" {
		return fmt.Errorf("the run has %s %s, and now it is %s: give the same again, or name another folder", field, was, is)
	}
	return nil
}

// difference returns the name of the first field that differs, and its two values as JSON. The name is "" if none differs.
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
			was, _ = json.Marshal(x.Interface()) // cannot fail: KeepConfig has written configurations of this type as JSON
			is, _ = json.Marshal(y.Interface())
			return name, was, is
		}
	}
	return "", nil, nil
}
