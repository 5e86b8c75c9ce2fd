package logs

import (
	"reflect"
	"unsafe"

	"github.com/rs/zerolog"
)

// writerOf is what a logger writes to. zerolog does not tell it: nil if it keeps it in another way than the
// version does that a test looks at.
func writerOf(log *zerolog.Logger) zerolog.LevelWriter {
	f, ok := reflect.TypeFor[zerolog.Logger]().FieldByName("w")
	if !ok || f.Type != reflect.TypeFor[zerolog.LevelWriter]() {
		return nil
	}
	return *(*zerolog.LevelWriter)(unsafe.Add(unsafe.Pointer(log), f.Offset))
}

// Of is the Writer of a logger, nil if it has none.
func Of(log zerolog.Logger) *Writer {
	w, _ := writerOf(&log).(*Writer)
	return w
}

// Guard puts a Writer in front of what a logger writes to, if it has none. A logger that writes nothing stays as
// it is.
func Guard(log zerolog.Logger) (zerolog.Logger, *Writer) {
	to := writerOf(&log)
	w, has := to.(*Writer)
	if has || to == nil || log.GetLevel() == zerolog.Disabled {
		return log, w
	}
	w = Singly(to)
	return log.Output(w), w
}
