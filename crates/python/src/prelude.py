# The names that a workflow file may use; this text stands before every file. The interpreter has no inheritance between
# classes, no properties and no `fn.__name__`, hence plain classes, and `repr`. It is part of what is replayed: a change
# to which calls are made, or to their order, makes runs that are under way diverge.
import asyncio as _asyncio

# A file may name one of its nodes "list".
_dict, _hasattr, _hash, _int, _isinstance, _len, _list = dict, hasattr, hash, int, isinstance, len, list
_min, _range, _repr, _str, _tuple, _type = min, range, repr, str, tuple, type

# The interpreter has no class CancelledError. This one has its place in the hierarchy: `except Exception` passes it on.
CancelledError = KeyboardInterrupt
_CancelledError = CancelledError

_coroutine = _type(_asyncio.gather())
_callable = ("<class 'function'>", "<class 'builtin_function_or_method'>", "<class 'functools.partial'>", "<class 'type'>")

# What the file declares, by id. A declaration that is no longer in its registry does not count.
_nodes = {}
_graphs = {}
_workflows = {}
_declared = []


def _check_id(kind, id):
    rest = id[1:].replace("_", "").replace("-", "") if _isinstance(id, _str) else ""
    if not _isinstance(id, _str) or id == "" or not id.isascii() or not id[0].isalpha() or not (rest == "" or rest.isalnum()):
        raise ValueError(f"Invalid {kind} ID '{id}'. Must start with letter and contain only letters, numbers, underscores, hyphens.")


def _check_unique(kind, id):
    _check_id(kind, id)
    if id in _nodes:
        raise ValueError(f"ID '{id}' conflicts with existing node")
    if id in _graphs:
        raise ValueError(f"ID '{id}' conflicts with existing graph")
    if id in _workflows:
        raise ValueError(f"ID '{id}' conflicts with existing workflow")


class Session:
    """The file's declarations. All sessions of a file are views of the same registries."""

    def __init__(self, name="default", id=None):
        self.id = name if id is None else id
        self.name = name
        self.nodes = _nodes
        self.graphs = _graphs
        self.workflows = _workflows

    def __repr__(self):
        return f"Session(name={self.name!r})"

    def validate_unique_id(self, id, entity_type):
        _check_unique(entity_type, id)

    def get_node(self, id):
        return _nodes.get(id)

    def get_graph(self, id):
        return _graphs.get(id)

    def get_workflow(self, id):
        return _workflows.get(id)

    def list_workflows(self):
        return _list(_workflows.keys())

    def delete_workflow(self, id):
        return _workflows.pop(id, None) is not None

    def get_workflow_run(self, run_id):
        raise RuntimeError(f"a workflow cannot look at runs; `steplatch runs show {run_id}` does, or GET_WORKFLOW_RUN")

    def list_workflow_runs(self, workflow_id=None, state=None):
        raise RuntimeError("a workflow cannot look at runs; `steplatch runs list` does, or LIST_WORKFLOW_RUNS")


session = Session()
_session = session


def _known(value):
    return _isinstance(value, _Node) or _isinstance(value, _Workflow)


def _id_of(node):
    return node.id if _known(node) else node


def _plain(value):
    if _known(value):
        return value.id
    if _isinstance(value, _dict):
        return {key: _plain(item) for key, item in value.items()}
    if _isinstance(value, (_list, _tuple)):
        return [_plain(item) for item in value]
    return value


# Returns the name of a function of the file; None where the interpreter does not tell it.
def _check_function(kind, id, fn):
    if fn is None:
        raise ValueError(f"{kind} '{id}' needs fn=, a function that takes the context")
    if _str(_type(fn)) not in _callable:
        raise ValueError(f"fn of {kind} '{id}' must be a function that takes the context, not {fn!r}")
    name = _repr(fn)
    parts = name.split("'")
    name = parts[1] if name.startswith("<function '") else ""
    about = _steplatch_functions.get(name)
    if about is None:
        return None
    if not about["takes_one"]:
        raise ValueError(f"fn of {kind} '{id}' must take one argument, the context: 'def {name}(ctx)'")
    return name


def _described(description, function):
    if description or function is None:
        return description or ""
    return _steplatch_functions[function]["docstring"] or ""


class _Node:
    """A node or a graph."""

    def __init__(self, kind, id, session, settings, fn=None):
        self.kind = kind
        self.id = id
        self.session = _session if session is None else session
        self.fn = fn
        self.settings = settings

    def __repr__(self):
        return f"{self.kind}(id={self.id!r})"


def _declare(kind, id, session, settings, fn=None):
    word, registry = ("graph", _graphs) if kind == "graph" else ("node", _nodes)
    _check_unique(word, id)
    node = _Node(kind, id, session, settings, fn)
    registry[id] = node
    _declared.append(node)
    return node


# Returns when the file was executed for this run: the registration of everything that it declares.
def _created_at():
    if _steplatch_start is None or _steplatch_start.get("at") is None:
        return None
    import datetime

    seconds = _steplatch_start["at"]
    microseconds = _int((seconds - _int(seconds)) * 1000000)
    past = datetime.timedelta(seconds=_int(seconds), microseconds=microseconds)
    return datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc) + past


class WorkflowInfo:
    def __init__(self, id, description, created_at):
        self.id = id
        self.description = description
        self.created_at = created_at

    def to_dict(self):
        created_at = None if self.created_at is None else self.created_at.isoformat()
        return {"id": self.id, "description": self.description, "created_at": created_at}


class Workflow:
    def __init__(self, id=None, session=None, fn=None, description=None, metadata=None):
        _check_unique("workflow", id)
        function = _check_function("Workflow", id, fn)
        self.id = id
        self.session = _session if session is None else session
        self.fn = fn
        self.description = _described(description, function)
        self.metadata = metadata or {}
        self.created_at = _created_at()
        self.kind = "workflow"
        self.settings = {"function": function, "description": description, "metadata": _plain(metadata)}
        _workflows[id] = self
        _declared.append(self)

    def to_info(self):
        return WorkflowInfo(self.id, self.description, self.created_at)

    def __repr__(self):
        return f"Workflow(id='{self.id}')"


_Workflow = Workflow


def FunctionNode(id=None, session=None, fn=None, description=None, metadata=None):
    _check_unique("node", id)
    function = _check_function("FunctionNode", id, fn)
    settings = {"function": function, "description": description, "metadata": _plain(metadata)}
    return _declare("function", id, session, settings, fn)


# NODES: `source.rs` puts a function here for each kind of node with settings only, as `BashNode`.


def Step(id=None, node=None, **settings):
    _check_id("step", id)
    return {"id": id, "node": _id_of(node), **settings}


def Graph(id=None, session=None, steps=None, **settings):
    if not _isinstance(steps, (_list, _tuple)):
        raise ValueError(f"Graph '{id}' needs steps=, a list of steps")
    return _declare("graph", id, session, {"settings": _plain({"steps": steps, **settings})})


class WorkflowState:
    def __init__(self, value):
        if value not in ("pending", "running", "waiting", "completed", "failed", "cancelled"):
            raise ValueError(f"{value!r} is not a valid WorkflowState")
        self.value = value
        self.name = value.upper()

    def __eq__(self, other):
        return _isinstance(other, _WorkflowState) and self.value == other.value

    def __hash__(self):
        return _hash(self.value)

    def __repr__(self):
        return f"<WorkflowState.{self.name}: '{self.value}'>"

    def __str__(self):
        return f"WorkflowState.{self.name}"


_WorkflowState = WorkflowState
WorkflowState.PENDING = WorkflowState("pending")
WorkflowState.RUNNING = WorkflowState("running")
WorkflowState.WAITING = WorkflowState("waiting")
WorkflowState.COMPLETED = WorkflowState("completed")
WorkflowState.FAILED = WorkflowState("failed")
WorkflowState.CANCELLED = WorkflowState("cancelled")


class WorkflowRun:
    def __init__(self, workflow=None, input=None, params=None, event_sink=None):
        id = _id_of(workflow)
        raise RuntimeError(
            f"a workflow file declares workflows and cannot start a WorkflowRun: `steplatch run FILE` or "
            f"`steplatch run {id}` starts one, EXECUTE_WORKFLOW does over the socket, and within a function "
            f"await ctx.run_workflow('{id}', input)"
        )


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
    "asyncio.CancelledError": CancelledError,
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


# Performs `target.__setitem__(key, value)`, as which a file is read: the interpreter has no such methods of its own types.
def _setitem(target, key, value):
    if _hasattr(target, "__setitem__"):
        return target.__setitem__(key, value)
    target[key] = value


def _getitem(target, key):
    return target.__getitem__(key) if _hasattr(target, "__getitem__") else target[key]


# Executes a function node of this file, as the answer to the call `number`, among the module's own variables. Returns
# what answers the call: the result that follows from what the function returned, or an exception. The function is left
# behind where its call is answered before it returns.
async def _executed(number, id, given, params):
    answers = []

    async def answered():
        answers.append(await _steplatch_ask("inline", {"of": number}))
        raise RuntimeError("the call is answered")

    async def execute():
        ended = {"of": number}
        try:
            node = _nodes[id]
            ctx = WorkflowContext(node.session, given, params)
            ctx._within = number
            output = node.fn(ctx)
            if _isinstance(output, _coroutine):
                output = await output
            ended["output"] = output
        except _CancelledError as error:
            ended["cancelled"] = True
            ended["error"] = _str(error)
        except BaseException as error:
            ended["error"] = _summary(error)
        try:
            _steplatch_ask("ended", ended)
        except TypeError as error:
            _steplatch_ask("ended", {"of": number, "error": _summary(error)})

    try:
        await _asyncio.gather(answered(), execute())
    except BaseException:
        if not answers:
            raise
    return answers[0]


def _summary(error):
    message = _str(error)
    return f"{_type(error).__name__}: {message}" if message else _type(error).__name__


class WorkflowContext:
    def __init__(self, session=None, input=None, params=None, state=None):
        self.session = _session if session is None else session
        self.input = input
        self.params = {} if params is None else params
        self.state = {} if state is None else state
        self._within = None

    async def run(self, node_id, input="", timeout=None, **kwargs):
        asked = {"within": self._within, "node": _id_of(node_id), "input": input, "timeout": timeout, "kwargs": kwargs}
        answer = await _steplatch_ask("run", asked)
        if _len(answer) == 3:
            answer = await _executed(answer[0], asked["node"], input, kwargs)
        return _given(answer)

    async def gate(self, prompt, timeout=None, choices=None, form=None, answered_by=None, context=None, with_reason=False, approvers=None, escalate_after=None):
        asked = {"prompt": prompt, "timeout": timeout, "choices": choices, "form": form, "answered_by": answered_by, "context": context}
        asked["within"] = self._within
        if with_reason:
            asked["with_reason"] = True
        if approvers is not None:
            asked["approvers"] = approvers
        if escalate_after is not None:
            asked["escalate_after"] = escalate_after
        return _given(await _steplatch_ask("gate", asked))

    async def run_workflow(self, id, input=None, params=None, timeout=None):
        asked = {"within": self._within, "workflow": _id_of(id), "input": input, "params": params or {}, "timeout": timeout}
        return _given(await _steplatch_ask("run_workflow", asked))

    async def run_graph(self, id, input=None, timeout=None):
        asked = {"within": self._within, "graph": _id_of(id), "input": input, "timeout": timeout}
        return _given(await _steplatch_ask("run_graph", asked))

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
                    # One that cannot be run loses none of the others.
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
        return _given(await _steplatch_ask("sleep", {"within": self._within, "seconds": seconds}))

    def emit(self, event_type, data=None):
        _steplatch_ask("emit", {"within": self._within, "event_type": event_type, "data": data})

    def now(self):
        return _given(_steplatch_ask("now", {"within": self._within}))

    def random(self):
        return _given(_steplatch_ask("random", {"within": self._within}))


def _is_declared(one):
    return _nodes.get(one.id) is one or _graphs.get(one.id) is one or _workflows.get(one.id) is one


async def _steplatch_enter(start):
    if start is None:
        return [{"id": one.id, "kind": one.kind, **one.settings} for one in _declared if _is_declared(one)]
    one = _workflows.get(start["id"])
    if one is None:
        one = _nodes[start["id"]]
    ctx = WorkflowContext(one.session, start["input"], start["params"])
    if start.get("cancelled"):
        # Not otherwise: the interpreter forgets where an exception was raised that passes a `finally`.
        try:
            result = one.fn(ctx)
            if _isinstance(result, _coroutine):
                result = await result
            return result
        finally:
            await _steplatch_ask("rest", {})
    result = one.fn(ctx)
    if _isinstance(result, _coroutine):
        result = await result
    return result


