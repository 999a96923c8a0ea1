module github.com/evald/evald

go 1.26
