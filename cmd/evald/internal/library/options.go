package library

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// decode reads options, a JSON object, into a struct. Its errors name the option and the value in
// the caller's words: callers pass options as arguments, and do not know that they travel as JSON.
func decode[T any](options string, into *T) error {
	if strict(options, into) == nil {
		return nil
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal([]byte(options), &given); err != nil {
		return errors.New("are not a JSON object")
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		one, err := json.Marshal(map[string]json.RawMessage{name: given[name]})
		if err != nil {
			return err
		}
		if err := strict(string(one), new(T)); err != nil {
			return refusal(name, string(given[name]), err)
		}
	}
	return errors.New("have something after the JSON object")
}

// strict decodes one JSON object, and refuses unknown fields.
func strict(options string, into any) error {
	d := json.NewDecoder(strings.NewReader(options))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// refusal describes why a value was refused.
func refusal(name, value string, err error) error {
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind):
		return fmt.Errorf("%s is %s, must be %s", name, value, word(kind.Type))
	case strings.HasPrefix(err.Error(), "json: unknown field"):
		return fmt.Errorf("%s is unknown", name)
	}
	return fmt.Errorf("%s is %s, %w", name, value, err)
}

// word describes the values of a type.
func word(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "text"
	case reflect.Float64, reflect.Float32:
		return "a number"
	case reflect.Uint, reflect.Uint64:
		return "a whole number from 0"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Slice:
		return "a list"
	}
	return "a table of names and values"
}
