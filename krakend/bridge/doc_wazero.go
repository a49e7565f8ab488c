package bridge

import _ "github.com/tetratelabs/wazero" // until the host is built
