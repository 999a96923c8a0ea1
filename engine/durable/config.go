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
	if err := DecodeConfig(path, text, &old); err != nil {
		return err
	}
	if err := SameConfig(old, c); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// DecodeConfig decodes the content of a configuration's file into c. Fields that are missing from
// it stay as they are; a field that c does not have is an error. Errors name the file.
func DecodeConfig[C any](path string, text []byte, c *C) error {
	content, err := checkedJSON(text)
	if err == nil {
		decode := json.NewDecoder(bytes.NewReader(content))
		decode.DisallowUnknownFields()
		err = decode.Decode(c)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: it is damaged or another version's, name another folder", path, err)
	}
	return nil
}

// SameConfig returns an error that names the first field in which two configurations, structs, differ, or nil. Fields that JSON omits are
// not compared.
func SameConfig[C any](was, is C) error {
	for _, d := range Differences(was, is) {
		return fmt.Errorf("the run has %s %s, and now it is %s: give the same again, or name another folder", d.Field, d.Was, d.Is)
	}
	return nil
}

// Difference is a field in which two configurations differ, with both values. The name of a field
// of an inner struct begins with the struct's: selfplay.visits.
type Difference struct {
	Field   string
	Was, Is json.RawMessage
}

// Differences lists the fields in which two configurations, structs, differ. Fields that JSON omits
// are not compared.
func Differences[C any](was, is C) []Difference {
	return differences("", reflect.ValueOf(was), reflect.ValueOf(is))
}

func differences(within string, a, b reflect.Value) (all []Difference) {
	for i := range a.NumField() {
		f := a.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		name = within + cmp.Or(name, f.Name)
		x, y := a.Field(i), b.Field(i)
		if x.Kind() == reflect.Struct {
			all = append(all, differences(name+".", x, y)...)
		} else if !reflect.DeepEqual(x.Interface(), y.Interface()) {
			was, _ := json.Marshal(x.Interface()) // cannot fail: KeepConfig has written configurations of this type as JSON
			is, _ := json.Marshal(y.Interface())
			all = append(all, Difference{name, was, is})
		}
	}
	return all
}
