#include "muxd/ctl/keys.h"

enum keys_state { KEYS_PLAIN, KEYS_ESC, KEYS_CSI, KEYS_STRING, KEYS_STRING_ESC };

static int plain_key(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return KEY_PERCENT + (c - '0');
	switch (c) {
	case 'q':
	case 'Q':
	case 0x03:
	case 0x04:
		return KEY_QUIT;
	case ' ':
		return KEY_PAUSE;
	case '+':
	case '=':
		return KEY_FASTER;
	case '-':
	case '_':
		return KEY_SLOWER;
	case '.':
		return KEY_STEP;
	case 'i':
		return KEY_IDLE;
	case 's':
		return KEY_STATUS;
	case '?':
	case 'h':
		return KEY_HELP;
	case 'g':
		return KEY_START;
	case 'G':
		return KEY_END;
	case 0x1a:
		return KEY_STOP;
	default:
		return KEY_NONE;
	}
}

static int final_key(const struct keys *k, uint8_t c)
{
	switch (c) {
	case 'A':
		return KEY_UP;
	case 'B':
		return KEY_DOWN;
	case 'C':
		return KEY_RIGHT;
	case 'D':
		return KEY_LEFT;
	case 'H':
		return KEY_START;
	case 'F':
		return KEY_END;
	case '~':
		if (k->number == 1 || k->number == 7)
			return KEY_START;
		return k->number == 4 || k->number == 8 ? KEY_END : KEY_NONE;
	default:
		return KEY_NONE;
	}
}

/* A terminal answers questions in the recorded output with strings (ESC ] ... ESC \): those are no keys. */
static int after_escape(uint8_t c)
{
	if (c == '[' || c == 'O')
		return KEYS_CSI;
	if (c == ']' || c == 'P' || c == '_' || c == '^' || c == 'X')
		return KEYS_STRING;
	return c == 0x1b ? KEYS_ESC : KEYS_PLAIN;
}

int keys_feed(struct keys *k, uint8_t byte)
{
	switch (k->state) {
	case KEYS_ESC:
		k->state = after_escape(byte);
		k->number = 0;
		return KEY_NONE;
	case KEYS_STRING:
	case KEYS_STRING_ESC:
		if (byte == 0x07 || (byte == '\\' && k->state == KEYS_STRING_ESC))
			k->state = KEYS_PLAIN;
		else
			k->state = byte == 0x1b ? KEYS_STRING_ESC : KEYS_STRING;
		return KEY_NONE;
	case KEYS_CSI:
		if (byte >= '0' && byte <= '9' && k->number < 1000) {
			k->number = k->number * 10 + (byte - '0');
			return KEY_NONE;
		}
		if (byte < 0x40 && byte >= 0x20)
			return KEY_NONE;
		k->state = byte == 0x1b ? KEYS_ESC : KEYS_PLAIN;
		return final_key(k, byte);
	default:
		if (byte != 0x1b)
			return plain_key(byte);
		k->state = KEYS_ESC;
		return KEY_NONE;
	}
}

void keys_idle(struct keys *k)
{
	k->state = KEYS_PLAIN;
}
