package durable

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
)

// Shard is a file of records, whose name contains the numbers of its games.
type Shard struct {
	Path        string
	First, Last int // numbers of its games, from 0; Last is less than First if the name does not contain them
}

// Games is the number of games in the file.
func (s Shard) Games() int { return s.Last - s.First + 1 }

// ShardName is the name of the file that holds games first to last: "games-000000-000499.parquet".
func ShardName(first, last int) string { return fmt.Sprintf("games-%06d-%06d.parquet", first, last) }

// Shards lists the files of records in a folder in the order of their first games. Files whose names do not contain numbers of games come
// last.
func Shards(dir string) ([]Shard, error) { return ShardsIn(OS, dir) }

// ShardsIn is Shards in any file system.
func ShardsIn(files FS, dir string) ([]Shard, error) {
	entries, err := files.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var shards []Shard
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, "games-") || !strings.HasSuffix(name, ".parquet") {
			continue
		}
		s := Shard{Path: filepath.Join(dir, name)}
		if _, err := fmt.Sscanf(name, "games-%d-%d.parquet", &s.First, &s.Last); err != nil {
			s.First, s.Last = math.MaxInt, -1
		}
		shards = append(shards, s)
	}
	slices.SortStableFunc(shards, func(a, b Shard) int { return cmp.Compare(a.First, b.First) })
	return shards, nil
}
