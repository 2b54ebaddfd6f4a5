# What stands before every file: the names that a file may use. The interpreter knows no inheritance between classes of a
# file and no `fn.__name__`, hence functions that make plain records, and `repr`. It is part of what is replayed: a change to
# which calls are made, and in which order, makes runs that are under way diverge.
import asyncio as _asyncio

# A file may call one of its nodes "list".
_dict, _int, _isinstance, _len, _list = dict, int, isinstance, len, list
_min, _range, _repr, _str, _tuple = min, range, repr, str, tuple

_declared = {}
_entries = {}


class Session:
    pass


session = Session()


class _Declared:
    def __init__(self, kind, id, settings):
        self.kind = kind
        self.id = id
        self.settings = settings

    def __repr__(self):
        return f"{self.kind}(id={self.id!r})"


def _id_of(node):
    return node.id if _isinstance(node, _Declared) else node


def _plain(value):
    if _isinstance(value, _Declared):
        return value.id
    if _isinstance(value, _dict):
        return {key: _plain(item) for key, item in value.items()}
    if _isinstance(value, (_list, _tuple)):
        return [_plain(item) for item in value]
    return value


def _check_id(id):
    rest = id[1:].replace("_", "").replace("-", "") if _isinstance(id, _str) else ""
    if not _isinstance(id, _str) or id == "" or not id.isascii() or not id[0].isalpha() or not (rest == "" or rest.isalnum()):
        raise ValueError(f"ID {id!r} is not valid: it begins with a letter, and letters, digits, '_' and '-' follow")
    return id


def _declare(kind, id, settings):
    _check_id(id)
    if id in _declared:
        raise ValueError(f"ID '{id}' conflicts with existing {_declared[id].settings['word']}")
    declared = _Declared(kind, id, settings)
    _declared[id] = declared
    return declared


def _check_function(kind, id, fn):
    if fn is None:
        raise ValueError(f"{kind} '{id}' needs fn=, an async function that takes the context")
    name = _repr(fn)
    parts = name.split("'")
    name = parts[1] if name.startswith("<function '") else ""
    about = _steplatch_functions.get(name)
    if about is None:
        raise ValueError(f"fn of {kind} '{id}' must be a function written with 'async def', not {fn!r}")
    if not about["asynchronous"]:
        raise ValueError(f"fn of {kind} '{id}' must be asynchronous: write 'async def {name}' instead of 'def {name}'")
    if not about["takes_one"]:
        raise ValueError(f"fn of {kind} '{id}' must take one argument, the context: 'async def {name}(ctx)'")
    return name


def Workflow(id=None, session=None, fn=None, description=None, metadata=None):
    _check_id(id)
    name = _check_function("Workflow", id, fn)
    settings = {"word": "workflow", "function": name, "description": description, "metadata": _plain(metadata)}
    declared = _declare("workflow", id, settings)
    _entries[id] = fn
    return declared


def FunctionNode(id=None, session=None, fn=None, description=None, metadata=None):
    _check_id(id)
    name = _check_function("FunctionNode", id, fn)
    settings = {"word": "node", "function": name, "description": description, "metadata": _plain(metadata)}
    declared = _declare("function", id, settings)
    _entries[id] = fn
    return declared


def BashNode(id=None, session=None, **settings):
    return _declare("bash", id, {"word": "node", "settings": _plain(settings)})


def PTYNode(id=None, session=None, **settings):
    return _declare("pty", id, {"word": "node", "settings": _plain(settings)})


def HttpNode(id=None, session=None, **settings):
    return _declare("http", id, {"word": "node", "settings": _plain(settings)})


def McpNode(id=None, session=None, **settings):
    return _declare("mcp", id, {"word": "node", "settings": _plain(settings)})


def LLMNode(id=None, session=None, **settings):
    return _declare("llm", id, {"word": "node", "settings": _plain(settings)})


def Step(id=None, node=None, **settings):
    _check_id(id)
    return {"id": id, "node": _id_of(node), **settings}


def Graph(id=None, session=None, steps=None, **settings):
    if not _isinstance(steps, (_list, _tuple)):
        raise ValueError(f"Graph '{id}' needs steps=, a list of steps")
    return _declare("graph", id, {"word": "graph", "settings": _plain({"steps": steps, **settings})})


_exceptions = {
    "ArithmeticError": ArithmeticError,
    "AssertionError": AssertionError,
    "Exception": Exception,
    "IndexError": IndexError,
    "KeyError": KeyError,
    "LookupError": LookupError,
    "NotImplementedError": NotImplementedError,
    "OSError": OSError,
    "PermissionError": PermissionError,
    "RuntimeError": RuntimeError,
    "TimeoutError": TimeoutError,
    "asyncio.TimeoutError": TimeoutError,
    "TypeError": TypeError,
    "ValueError": ValueError,
}


def _given(answer):
    if _len(answer) == 1:
        return answer[0]
    name, message = answer
    if name in _exceptions:
        raise _exceptions[name](message)
    raise RuntimeError(f"{name}: {message}")


class WorkflowContext:
    def __init__(self, input, params):
        self.input = input
        self.params = params
        self.state = {}

    async def run(self, node_id, input="", timeout=None, **kwargs):
        asked = {"node": _id_of(node_id), "input": input, "timeout": timeout, "kwargs": kwargs}
        return _given(await _steplatch_ask("run", asked))

    async def gate(self, prompt, timeout=None, choices=None, form=None, answered_by=None, context=None):
        asked = {"prompt": prompt, "timeout": timeout, "choices": choices, "form": form, "answered_by": answered_by, "context": context}
        return _given(await _steplatch_ask("gate", asked))

    async def run_workflow(self, id, input=None, params=None, timeout=None):
        asked = {"workflow": _id_of(id), "input": input, "params": params or {}, "timeout": timeout}
        return _given(await _steplatch_ask("run_workflow", asked))

    async def run_graph(self, id, input=None, timeout=None):
        return _given(await _steplatch_ask("run_graph", {"graph": _id_of(id), "input": input, "timeout": timeout}))

    async def run_parallel(self, calls, limit=None):
        calls = _list(calls)
        if limit is not None and (not _isinstance(limit, _int) or limit < 1):
            raise ValueError("limit of run_parallel must be a whole number from 1")
        lanes = _len(calls) if limit is None else _min(limit, _len(calls))
        results = [None for _ in calls]
        waiting = _list(_range(_len(calls)))

        async def lane():
            while waiting:
                at = waiting.pop(0)
                node, given = calls[at]
                try:
                    results[at] = await self.run(node, given)
                except Exception as error:
                    # One that can not be run loses none of the others.
                    results[at] = {
                        "success": False,
                        "output": None,
                        "error": _str(error),
                        "error_type": _repr(error).split("(")[0],
                        "node_type": None,
                        "node_id": _id_of(node),
                        "input": given,
                        "attributes": {},
                    }

        if lanes > 0:
            await _asyncio.gather(*[lane() for _ in _range(lanes)])
        return results

    async def sleep(self, seconds):
        return _given(await _steplatch_ask("sleep", {"seconds": seconds}))

    def emit(self, event_type, data=None):
        _steplatch_ask("emit", {"event_type": event_type, "data": data})

    def now(self):
        return _given(_steplatch_ask("now", {}))

    def random(self):
        return _given(_steplatch_ask("random", {}))


async def _steplatch_enter(start):
    if start is None:
        return [{"id": id, "kind": one.kind, **one.settings} for id, one in _declared.items()]
    ctx = WorkflowContext(start["input"], start["params"])
    result = await _entries[start["id"]](ctx)
    return result


