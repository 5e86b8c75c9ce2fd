package main

// The drivers of the databases that have an outbox. Only the command has them: a program that imports troupe brings its own.
import (
	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"
)
