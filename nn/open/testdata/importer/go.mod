module example.com/importer

go 1.26.0

require github.com/evald/evald v0.0.0

replace github.com/evald/evald => ../../../..
