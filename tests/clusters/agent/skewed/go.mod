module reader

go 1.20
